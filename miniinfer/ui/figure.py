"""Figures of pages that move with the cursor: made by plotly in Python, drawn by our own component on canvas.

Plotly's own drawing code takes 75 to 120 ms for each figure that changes, and its figures cannot be linked to anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import plotly.graph_objects as go

from miniinfer.figures.figure_message import figure_message
from miniinfer.figures.plain import Spec
from miniinfer.ui.mount import mount_figure, picked

Pick = Callable[[Any, Any], None]


def draw_figure(
    figure: go.Figure | Spec, key: str, alt: str, *, name: str | None = None, on_pick: Pick | None = None
) -> None:
    """name: of the files that its two buttons save (PNG and SVG), by default the key. on_pick: gets the coordinates of
    a point that was clicked, as the browser says them."""

    def on_change() -> None:
        point = picked(key)
        if on_pick is not None and point is not None:
            on_pick(*point)

    mount_figure(key, figure_message(figure, name or key, alt, picks=on_pick is not None), on_change)
