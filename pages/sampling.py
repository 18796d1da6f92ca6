"""How one token was chosen: every stage, the draw, and what other settings would have done."""

from miniinfer.ui.pages import enter_page
from miniinfer.ui.sampling.page import draw_sampling

draw_sampling(enter_page())
