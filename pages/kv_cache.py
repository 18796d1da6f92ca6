"""What the KV cache holds, in which blocks it lies, and how many bytes it takes."""

from miniinfer.ui.kv.page import draw_kv_cache
from miniinfer.ui.pages import enter_page

draw_kv_cache(enter_page())
