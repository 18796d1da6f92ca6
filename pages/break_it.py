"""One classic fault beside the healthy engine: what changes first, what can be read, and how one would have noticed."""

from miniinfer.ui.break_it.page import draw_break
from miniinfer.ui.pages import enter_page

draw_break(enter_page())
