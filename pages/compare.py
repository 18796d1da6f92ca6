"""Two runs of this session side by side."""

from miniinfer.ui.compare_page import draw_compare
from miniinfer.ui.pages import enter_page

draw_compare(enter_page())
