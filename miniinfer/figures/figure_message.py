"""A plotly figure as the message that our own figure component draws: the figure's JSON, its name, what it shows."""

from __future__ import annotations

import plotly.graph_objects as go
from plotly.io.json import to_json_plotly


def figure_message(figure: go.Figure, name: str, alt: str, *, picks: bool = False) -> bytes:
    """JSON in UTF-8. name: of the file that it is saved as, without an ending. alt: its title in words. picks: a click
    on a point asks for something. The template is left out: every figure of ours says all that it needs."""
    spec = figure.to_dict()
    spec["layout"].pop("template", None)
    text: str = to_json_plotly({"name": name, "alt": alt, "picks": picks, "figure": spec})
    return text.encode()
