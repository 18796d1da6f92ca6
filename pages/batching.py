"""Many requests at once: static and continuous batching of the real model, one engine step at a time."""

from miniinfer.ui.batching.page import draw_batching
from miniinfer.ui.pages import enter_page

draw_batching(enter_page())
