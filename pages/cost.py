"""What a token costs: where the time of a step goes and why, with and without the cache, in several precisions."""

from miniinfer.ui.cost.page import draw_cost
from miniinfer.ui.pages import enter_page

draw_cost(enter_page())
