"""How high pictures and tables are: pages are laid out for a window of 900 px, and a higher one shows more."""

from __future__ import annotations

import plotly.graph_objects as go
import streamlit as st

ROOM = "window_room"  # px that the browser says are left over
MOST = 700
TOKEN_BAR = 20  # px of a bar in a list of tokens


def take_room(asked: object) -> bool:
    """Keep what the transport says of the window, `{"room": px}`; whether it was that."""
    room = asked.get("room") if isinstance(asked, dict) else None
    if not isinstance(room, int) or isinstance(room, bool):
        return False
    st.session_state[ROOM] = max(0, min(room, MOST))
    return True


def room() -> int:
    """In px; 0 in a window of 900 px and until the browser has said more."""
    return int(st.session_state.get(ROOM, 0))


def roomy(height: int, parts: int = 1) -> int:
    """A height in px for a window of 900 px -> for this one. parts: so many things above each other share the rest."""
    return height + room() // parts


def more_rows(height: int, parts: int = 1) -> int:
    """How many more rows or bars of so many px that is."""
    return room() // parts // height


def taller(figure: go.Figure, parts: int = 1) -> go.Figure:
    """The same for a figure that knows its height for a window of 900 px."""
    return figure.update_layout(height=roomy(int(figure.layout.height), parts))
