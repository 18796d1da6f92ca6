"""Keys, values, queries and weights as plotly figures. Each has a table twin in kv/tables.py with the same numbers."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from miniinfer.figures.kv.tables import PositionText
from miniinfer.figures.palette import Palette
from miniinfer.figures.plain import plain
from miniinfer.figures.sampling.words import for_plotly
from miniinfer.trace.kv.vectors import CachedVectors, Reading
from miniinfer.trace.records import FloatArray

WINDOW = 48  # positions of the heat map
NAMED = 40  # positions up to which every one is named by its token
LABEL = 12  # characters of a token under a bar


def vector_figure(cached: CachedVectors, position: int, colours: Palette) -> go.Figure:
    """The key and the value of one position: D bars each."""
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.1)
    for row, (name, part) in enumerate((("K, after RoPE", cached.keys), ("V", cached.values)), 1):
        values = part[position]
        figure.add_bar(
            x=list(range(len(values))), y=values, row=row, col=1, name=name, marker_color=colours.kv,
            hovertemplate=f"{name}<br>dim %{{x}}: %{{y:.7g}}<extra></extra>",
        )
        figure.update_yaxes(title=name.split(",")[0], nticks=5, row=row, col=1)
    figure.update_xaxes(title="dim", row=2, col=1, dtick=8)
    return plain(figure, colours, 220, showlegend=False)


def window_of(cached: CachedVectors, position: int) -> tuple[int, int]:
    """First and last + 1 of the positions that the heat map shows around `position`."""
    first = max(0, min(position - WINDOW // 2, cached.context_len - WINDOW))
    return first, min(cached.context_len, first + WINDOW)


def cache_figure(cached: CachedVectors, position: int, text: PositionText, colours: Palette) -> go.Figure:
    """All numbers of this layer and KV head around a position: one line a position, keys left, values right."""
    first, stop = window_of(cached, position)
    rows = list(range(first, stop))
    figure = make_subplots(rows=1, cols=2, shared_yaxes=True, horizontal_spacing=0.09,
                           subplot_titles=("Keys, after RoPE", "Values"))  # fmt: skip
    for col, part in enumerate((cached.keys, cached.values), 1):
        most = float(np.abs(part[first:stop]).max()) or 1.0
        figure.add_heatmap(
            z=part[first:stop], y=rows, x=list(range(part.shape[1])), row=1, col=col, zmin=-most, zmax=most,
            colorscale=_scale(colours.signed), ygap=1 if stop - first <= 24 else 0,
            colorbar={"x": 0.46 if col == 1 else 1.0, "thickness": 8, "outlinewidth": 0, "nticks": 5},
            hovertemplate="position %{y}, dim %{x}: %{z:.7g}<extra></extra>",
        )
        figure.add_shape(
            type="rect", x0=-0.5, x1=part.shape[1] - 0.5, y0=position - 0.5, y1=position + 0.5, row=1, col=col,
            line={"color": colours.step, "width": 2},
        )
        figure.update_xaxes(title="dim", dtick=16, row=1, col=col)
    every = max(1, -(-len(rows) // 16))
    shown = rows[::every]
    labels = [f"{p} {_short(text(p))}" for p in shown]
    figure.update_yaxes(autorange="reversed", tickvals=shown, ticktext=labels, row=1, col=1, showgrid=False)
    plain(figure, colours, 275, showlegend=False)
    figure.update_layout(margin={"t": 26})
    return figure.update_annotations(font={"size": 12, "color": colours.quiet})


def reading_figure(cached: CachedVectors, reading: Reading, text: PositionText, colours: Palette) -> go.Figure:
    """The weight that each of the G query heads gives to each position: one row of bars a head."""
    heads = len(reading.heads)
    positions = list(range(reading.position + 1))
    figure = make_subplots(rows=heads, cols=1, shared_xaxes=True, vertical_spacing=0.22 / max(heads, 1))
    tokens = [for_plotly(text(p)) for p in positions]
    for row, head in enumerate(reading.heads, 1):
        figure.add_bar(
            x=positions, y=reading.weights[row - 1], row=row, col=1, marker_color=colours.attention[2],
            customdata=np.stack([np.array(tokens, object), reading.scores[row - 1].astype(object)], 1),
            hovertemplate=f"head {head}, position %{{x}} %{{customdata[0]}}<br>weight %{{y:.6f}}, score "
            "%{customdata[1]:.4f}<extra></extra>",
        )
        figure.update_yaxes(
            title=f"head {head}", range=[0, 1.02], tickvals=[0, 0.5, 1], tickformat=".0%", row=row, col=1
        )
    if len(positions) <= NAMED:
        labels = [f"{p} {_short(text(p))}" for p in positions]
        figure.update_xaxes(tickvals=positions, ticktext=labels, tickangle=-45, row=heads, col=1)
    else:
        figure.update_xaxes(title="position", row=heads, col=1)
    figure.update_xaxes(range=[-0.6, len(positions) - 0.4])
    return plain(figure, colours, 84 * heads + 62, showlegend=False)


def query_figure(reading: Reading, colours: Palette) -> go.Figure:
    """The queries of the newest position, one line a head. They are in no cache."""
    most = float(np.abs(reading.q).max()) or 1.0
    figure = go.Figure()
    figure.add_heatmap(
        z=reading.q, y=list(range(len(reading.heads))), x=list(range(reading.q.shape[1])), zmin=-most, zmax=most,
        ygap=2,
        colorscale=_scale(colours.signed),
        colorbar={"thickness": 8, "outlinewidth": 0, "tickvals": [-most, 0, most], "tickformat": ".2g"},
        hovertemplate="q, dim %{x}: %{z:.7g}<extra></extra>",
    )
    labels = [f"q, head {head}" for head in reading.heads]
    figure.update_yaxes(tickvals=list(range(len(labels))), ticktext=labels, autorange="reversed", showgrid=False)
    figure.update_xaxes(title="dim", dtick=8)
    return plain(figure, colours, 26 * len(labels) + 72, showlegend=False)


def norms_figure(norms: FloatArray, text: PositionText, colours: Palette) -> go.Figure:
    """norms [n, L, 2] as two heat maps, layers over positions: what a recorded run keeps of its cache."""
    count = len(norms)
    figure = make_subplots(rows=1, cols=2, shared_yaxes=True, horizontal_spacing=0.09,
                           subplot_titles=("Norm of K", "Norm of V"))  # fmt: skip
    ramp = _scale((colours.signed[2], colours.kv, colours.signed[4]))
    for col in (1, 2):
        figure.add_heatmap(
            z=norms[:, :, col - 1].T, row=1, col=col, colorscale=ramp, zmin=0,
            zmax=float(norms[:, :, col - 1].max()),
            colorbar={"x": 0.46 if col == 1 else 1.0, "thickness": 8, "outlinewidth": 0, "nticks": 5},
            hovertemplate="position %{x}, layer %{y}: %{z:.5g}<extra></extra>",
        )
        every = max(1, -(-count // 16))
        shown = list(range(0, count, every))
        figure.update_xaxes(tickvals=shown, ticktext=[f"{p} {_short(text(p))}" for p in shown], tickangle=-45,
                            row=1, col=col)  # fmt: skip
    figure.update_yaxes(title="layer", row=1, col=1)
    plain(figure, colours, 380, showlegend=False)
    figure.update_layout(margin={"t": 26})
    return figure.update_annotations(font={"size": 12, "color": colours.quiet})


def _scale(stops: tuple[str, ...]) -> list[list[object]]:
    return [[i / (len(stops) - 1), colour] for i, colour in enumerate(stops)]


def _short(text: str) -> str:
    return for_plotly(text if len(text) <= LABEL else text[: LABEL - 1] + "…")
