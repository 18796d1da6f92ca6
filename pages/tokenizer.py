"""How a text becomes tokens, stage by stage, and what each token is to the model: one row of a matrix."""

from miniinfer.ui.pages import enter_page
from miniinfer.ui.tokenizer.page import draw_tokenizer

draw_tokenizer(enter_page())
