"""The first page: one step cursor, and panels that move together."""

from miniinfer.ui.session import get_session
from miniinfer.ui.workspace import draw_workspace

draw_workspace(get_session())
