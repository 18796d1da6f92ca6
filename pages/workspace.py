"""The first page: one step cursor, and panels that move together."""

from miniinfer.ui.pages import enter_page
from miniinfer.ui.workspace import draw_workspace

draw_workspace(enter_page())
