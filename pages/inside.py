"""A debugger for one forward pass: into the step under the cursor, stage by stage."""

from miniinfer.ui.inside.page import draw_inside
from miniinfer.ui.pages import enter_page

draw_inside(enter_page())
