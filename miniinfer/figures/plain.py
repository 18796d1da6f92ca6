"""The one look of plotly figures: no chrome but grid lines, one font, the page's own background."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from miniinfer.figures.palette import Palette

Spec = dict[str, Any]  # a figure in plotly's language, {"data": [...], "layout": {...}}; go.Figure(spec) is the figure
# Margins of a figure without a legend whose upper right corner says something: there the buttons appear that save it.
BELOW_BUTTONS = {"l": 8, "r": 8, "t": 24, "b": 8}


def plain(figure: go.Figure, colours: Palette, height: int, **layout: object) -> go.Figure:
    """Give a figure the look of all of them. layout: what plotly's update_layout takes."""
    axis = {
        "gridcolor": colours.grid, "zeroline": False, "fixedrange": True, "automargin": True, "separatethousands": True,
    }  # fmt: skip
    figure.update_xaxes({**axis, "tickfont": {"color": colours.quiet}})
    figure.update_yaxes({**axis, "tickfont": {"color": colours.text}})  # mostly tokens, which are what one reads
    return figure.update_layout(
        height=height, margin={"l": 8, "r": 8, "t": 8 if layout.get("showlegend") is False else 34, "b": 8}, bargap=0.2,
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", font={"size": 13, "color": colours.text},
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "title": None}, dragmode=False, **layout,
    )


def spec(traces: list[Spec], colours: Palette, height: int, *, x: Spec, y: Spec, **layout: object) -> Spec:
    """The same look as `plain` in one piece, for figures that are made at each move of the cursor: plotly's objects
    look at every part again when one is added, which takes ten times as long. x, y: what the axes say."""
    axis = {"gridcolor": colours.grid, "zeroline": False, "fixedrange": True, "automargin": True}
    look = {
        "height": height, "margin": {"l": 8, "r": 8, "t": 8 if layout.get("showlegend") is False else 34, "b": 8},
        "bargap": 0.2, "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"size": 13, "color": colours.text}, "dragmode": False,
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
    }
    look["xaxis"] = {**axis, "tickfont": {"color": colours.quiet}, **x}
    look["yaxis"] = {**axis, "tickfont": {"color": colours.text}, **y}
    return {"data": traces, "layout": {**look, **layout}}


def title(text: str) -> Spec:
    return {"text": text}


def log_axis(values: Sequence[float], digits: Sequence[int] = (1, 2, 5)) -> dict[str, Any]:
    """A logarithmic axis around these values, with these digits of each decade written out."""
    decades = range(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))) + 1)
    ticks = [digit * 10.0**decade for decade in decades for digit in digits]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:,g}" for tick in ticks]}
