"""Healthy beside broken as plotly figures. Each has a table twin in break_it/tables.py with the same numbers.

Two colours on all of them: amber for the healthy side, the palette's magenta for the broken one. Texts of tokens are
escaped here, for plotly takes tags in labels for markup.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from miniinfer.figures.palette import Palette
from miniinfer.figures.sampling.words import for_plotly, percent
from miniinfer.trace.lockstep import NextBars
from miniinfer.trace.text_loss import TextLoss

SHOWN = 6  # candidates of one output token
HEALTHY, BROKEN = "healthy", "broken"
Visible = Callable[[str], str]


def broken_colour(colours: Palette) -> str:
    return colours.series[3]


def next_tokens_figure(
    bars: Sequence[NextBars], visible: Visible, colours: Palette, height: int, second: str = BROKEN
) -> go.Figure:
    """The first steps' next-token bars, one column an output token, both sides in one row a candidate.

    second: what the other side is called.
    """
    titles = [f"output token {bar.index + 1}" for bar in bars]
    figure = make_subplots(1, max(1, len(bars)), subplot_titles=titles, horizontal_spacing=0.09)
    for column, bar in enumerate(bars, start=1):
        places = _shown(bar)
        labels = [_label(bar, place, visible) for place in places]
        for name, probs, colour in ((HEALTHY, bar.a, colours.probability), (second, bar.b, broken_colour(colours))):
            values = [None if probs is None else probs[place] for place in places]
            figure.add_bar(
                x=values, y=list(range(len(places))), orientation="h", name=name, marker_color=colour, row=1,
                col=column, showlegend=column == 1, legendgroup=name, text=[_short(v) for v in values],
                textposition="outside", cliponaxis=False,
                textfont={"size": 11, "color": colours.quiet},
                customdata=["ended" if v is None else percent(v) for v in values],
                hovertemplate=f"{name}: %{{customdata}}<extra></extra>",
            )
        figure.update_yaxes(
            tickvals=list(range(len(places))), ticktext=labels, autorange="reversed", showgrid=False, row=1, col=column
        )
        figure.update_xaxes(range=[0, 1.28], tickvals=[0, 0.5, 1], tickformat=".0%", row=1, col=column)
    figure.update_annotations(font={"size": 12, "color": colours.quiet})
    figure = _plain(figure, colours, height, barmode="group", bargap=0.25, bargroupgap=0.05)
    return figure.update_layout(legend={"y": -0.1, "yanchor": "top", "x": 0, "xanchor": "left"}, margin={"t": 24})


def _shown(bar: NextBars) -> list[int]:
    """The best few, and what either side took."""
    taken = [p for p, token in enumerate(bar.tokens) if token.token_id in bar.taken]
    extra = [p for p in taken if p >= SHOWN]
    return [*range(min(SHOWN - len(extra), len(bar.tokens))), *extra]


def _short(value: float | None) -> str:
    if value is None:
        return ""
    return percent(value) if value >= 1e-4 or value == 0 else "< 0.01 %"


def _label(bar: NextBars, place: int, visible: Visible) -> str:
    label = for_plotly(visible(bar.tokens[place].text))
    return f"<b>{label}</b>" if bar.tokens[place].token_id in bar.taken else label


def growth_figure(growth: Sequence[float], colours: Palette, height: int) -> go.Figure:
    """How far the two residual streams lie apart after each layer, on a logarithmic scale; 0 has no place on it."""
    figure = go.Figure()
    figure.add_scatter(
        x=list(range(len(growth))), y=[g if g > 0 and math.isfinite(g) else None for g in growth],
        mode="lines+markers", line={"color": broken_colour(colours), "width": 2}, marker={"size": 5},
        hovertemplate="after layer %{x}: %{y:.3g}<extra></extra>", showlegend=False,
    )
    figure.add_hline(y=1, line={"color": colours.quiet, "width": 1, "dash": "dot"})
    figure.update_xaxes(title="layer", range=[-0.5, len(growth) - 0.5])
    shown = [g for g in growth if g > 0 and math.isfinite(g)]
    decades = math.log10(max(1.0, *shown) / min(1.0, *shown)) if shown else 0.0  # the line at 1 is always there
    figure.update_yaxes(
        type="log", title="|difference| / |healthy|", exponentformat="power", dtick="D2" if decades < 3 else 1
    )
    return _plain(figure, colours, height)


def loss_figure(
    labels: Sequence[str], pair: tuple[TextLoss, TextLoss], visible: Visible, colours: Palette, height: int,
    second: str = BROKEN,
) -> go.Figure:
    """-ln p of every token of the fixed text, healthy beside broken. labels: its tokens without the first."""
    figure = go.Figure()
    x = list(range(1, len(labels) + 1))
    for name, side, colour in zip((HEALTHY, second), pair, (colours.probability, broken_colour(colours)), strict=True):
        figure.add_bar(
            x=x, y=list(side.nats), name=f"{name}, mean {side.mean:.4f}", marker_color=colour,
            hovertemplate=f"{name}: %{{y:.3f}} nats<extra></extra>",
        )
    figure.update_xaxes(tickvals=x, ticktext=[for_plotly(visible(label)) for label in labels], tickangle=-60)
    figure.update_yaxes(title="−ln p, nats", rangemode="tozero")
    return _plain(figure, colours, height, barmode="group", bargap=0.25)


def _plain(figure: go.Figure, colours: Palette, height: int, **layout: object) -> go.Figure:
    figure.update_xaxes(gridcolor=colours.grid, zeroline=False, fixedrange=True, automargin=True)
    figure.update_yaxes(gridcolor=colours.grid, zeroline=False, fixedrange=True, automargin=True)
    return figure.update_layout(
        height=height, margin={"l": 8, "r": 12, "t": 30, "b": 8}, paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)", font={"size": 12, "color": colours.text}, dragmode=False,
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 1, "xanchor": "right", "title": None}, **layout,
    )
