"""One head looked into, all heads sorted by what they do, and the model without some of them."""

from miniinfer.ui.attention.page import draw_attention
from miniinfer.ui.pages import enter_page

draw_attention(enter_page())
