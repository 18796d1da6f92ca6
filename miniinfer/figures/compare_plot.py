"""Two runs as a picture: what each token had in its own run, and how far apart the two distributions were there."""

from __future__ import annotations

import plotly.graph_objects as go

from miniinfer.figures.palette import Palette
from miniinfer.figures.plain import plain
from miniinfer.trace.compare import RunComparison


def comparison_figure(comparison: RunComparison, colours: Palette, height: int, source: str = "computed") -> go.Figure:
    """Bars: half the summed difference of the used probabilities; points: the probability of the token taken. source:
    where they come from."""
    pairs = comparison.pairs
    xs = [p.index + 1 for p in pairs]
    apart = {
        "type": "bar", "x": xs, "y": [p.used_difference for p in pairs],
        "name": "difference of the distributions, at least", "marker": {"color": colours.cut},
        "hovertemplate": "%{y:.1%}",
    }
    taken = [
        {
            "type": "scatter", "x": xs, "y": values, "name": f"token taken in {name}", "mode": "lines+markers",
            "line": {"color": colour, "width": 1.5}, "marker": {"size": 7, "symbol": symbol},
            "hovertemplate": "%{y:.1%}",
        }
        for name, values, colour, symbol in (
            ("A", [p.a_prob for p in pairs], colours.series[1], "circle"),
            ("B", [p.b_prob for p in pairs], colours.series[0], "square"),
        )
    ]
    figure = go.Figure([apart, *taken])
    first = comparison.first_difference
    if first is not None:
        figure.add_vline(
            x=first + 1, line={"color": colours.branch, "width": 2, "dash": "dot"}, annotation_text="first difference",
            annotation_position="top right", annotation_font={"color": colours.branch},
        )
    figure.update_xaxes(title="output token", dtick=1 if len(xs) <= 40 else None, range=[0.4, len(xs) + 0.6])
    figure.update_yaxes(title=f"probability ({source})", tickformat=".0%", range=[0, 1.08])
    return plain(figure, colours, height, hovermode="x unified")
