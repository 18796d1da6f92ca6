"""One head as pictures: q . k, scaled, masked and softmax side by side. Table twins: attention_tables.py."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from miniinfer.figures.attention_words import PositionText, cell_label, label
from miniinfer.figures.palette import Palette
from miniinfer.figures.plain import plain
from miniinfer.trace.attention import MAP_NAMES, HeadMaps
from miniinfer.trace.records import FloatArray

MANY = 24  # cells from which on not every one is labelled
TICKS = (0.0, 0.04, 0.16, 0.36, 0.64, 1.0)  # of the weights' scale: even steps of the square root


@dataclass(frozen=True)
class MapLook:
    """length: positions in the cache. row: the position looked at. hide_first: leave key 0 empty (window only)."""

    length: int
    row: int
    head_dim: int
    hide_first: bool


def maps_figure(shown: HeadMaps, look: MapLook, text: PositionText, colours: Palette, height: int) -> go.Figure:
    """Small multiples, one a stage; the row looked at is ringed. A head of which only the pattern is known has one."""
    names = [name for name in MAP_NAMES if name in shown.maps]
    root = f"{look.head_dim**0.5:.4g}"
    titles = {
        "products": "1  q · k", "scaled": f"2  divided by √{look.head_dim} = {root}",
        "masked": "3  later keys masked: −∞", "pattern": f"{len(names)}  softmax: weights",
    }  # fmt: skip
    figure = make_subplots(rows=1, cols=len(names), horizontal_spacing=0.02, shared_yaxes=True)
    rows, keys = axis_labels(shown, look.length, text)
    for column, name in enumerate(names, 1):
        values = shown.maps[name]
        if look.hide_first and shown.key_start == 0 and shown.cell == 1:
            values = values.copy()
            values[:, 0] = np.nan
        axis = figure.layout[f"xaxis{column if column > 1 else ''}"]
        low, high = axis.domain
        bar = {
            "orientation": "h", "x": (low + high) / 2, "xanchor": "center", "y": 1.01, "yanchor": "bottom",
            "len": (high - low) * 0.96, "thickness": 8, "tickfont": {"size": 11}, "ticklabelposition": "outside top",
        }  # fmt: skip
        figure.add_trace(_heat(name, values, rows, keys, bar, colours), row=1, col=column)
        figure.add_annotation(
            x=low, xref="paper", y=1.0, yshift=38, yref="paper", xanchor="left", yanchor="bottom", text=titles[name],
            showarrow=False, font={"size": 13, "color": colours.text},
        )
        at = (look.row - shown.row_start) // shown.cell
        figure.add_shape(
            type="rect", x0=-0.5, x1=len(keys) - 0.5, y0=at - 0.5, y1=at + 0.5, row=1, col=column,
            line={"color": colours.step, "width": 2},
        )
    few = {"tickmode": "linear", "dtick": 1} if len(keys) <= MANY else {"nticks": 7}
    figure.update_xaxes(tickangle=-90, tickfont={"size": 10}, showgrid=False, **few)
    few = {"tickmode": "linear", "dtick": 1} if len(rows) <= MANY else {"nticks": 12}
    figure.update_yaxes(autorange="reversed", tickfont={"size": 10}, showgrid=False, **few)
    figure = plain(figure, colours, height)
    return figure.update_layout(margin={"t": 64, "b": 4}, plot_bgcolor=colours.grid)


def axis_labels(shown: HeadMaps, length: int, text: PositionText) -> tuple[list[str], list[str]]:
    """Of rows and of keys."""
    num_rows, num_keys = shown.maps["pattern"].shape
    if shown.cell > 1:
        cells = [cell_label(i * shown.cell, shown.cell, length) for i in range(num_rows)]
        return cells, cells
    rows = [label(shown.row_start + i, text) for i in range(num_rows)]
    return rows, [label(shown.key_start + j, text) for j in range(num_keys)]


def _heat(
    name: str, values: FloatArray, rows: list[str], keys: list[str], bar: dict[str, object], colours: Palette
) -> go.Heatmap:
    finite = np.where(np.isneginf(values), np.nan, values)
    hover = "query %{y}<br>key %{x}<br>%{customdata}<extra></extra>"
    if name == "pattern":
        roots = np.sqrt(finite)
        bar |= {"tickvals": [t**0.5 for t in TICKS], "ticktext": [f"{100 * t:.0f} %" for t in TICKS]}
        return go.Heatmap(
            z=roots, x=keys, y=rows, zmin=0, zmax=1, colorscale=scale(colours.attention), colorbar=bar,
            customdata=finite, hovertemplate=hover.replace("%{customdata}", "weight %{customdata:.4f}"),
        )
    most = float(np.nanmax(np.abs(finite))) if np.isfinite(finite).any() else 1.0
    bar |= {"nticks": 5}
    return go.Heatmap(
        z=finite, x=keys, y=rows, zmin=-most, zmax=most, colorscale=scale(colours.signed), colorbar=bar,
        hovertemplate=hover.replace("%{customdata}", "%{z:.4f}"), hoverongaps=False,
    )


def scale(stops: tuple[str, ...]) -> list[tuple[float, str]]:
    """Colours at even distances, as plotly takes a scale."""
    return [(i / (len(stops) - 1), stop) for i, stop in enumerate(stops)]
