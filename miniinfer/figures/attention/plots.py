"""One head as pictures: q . k, scaled, masked and softmax side by side. Table twins: attention/tables.py."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from miniinfer.figures.attention.words import PositionText, cell_label, label
from miniinfer.figures.palette import Palette
from miniinfer.figures.plain import Spec
from miniinfer.trace.attention.one_head import MAP_NAMES, HeadMaps
from miniinfer.trace.records import FloatArray

GAP = 0.02  # between two pictures, of the width
MANY = 24  # cells from which on not every one is labelled
TICKS = (0.0, 0.04, 0.16, 0.36, 0.64, 1.0)  # of the weights' scale: even steps of the square root


@dataclass(frozen=True)
class MapLook:
    """length: positions in the cache. row: the position looked at. hide_first: leave key 0 empty (window only)."""

    length: int
    row: int
    head_dim: int
    hide_first: bool


def maps_figure(shown: HeadMaps, look: MapLook, text: PositionText, colours: Palette, height: int) -> Spec:
    """Small multiples, one a stage; the row looked at is ringed. A head of which only the pattern is known has one.

    Made in one piece: plotly took 70 ms for adding traces and shapes one by one.
    """
    names = [name for name in MAP_NAMES if name in shown.maps]
    root = f"{look.head_dim**0.5:.4g}"
    titles = {
        "products": "1  q · k", "scaled": f"2  divided by √{look.head_dim} = {root}",
        "masked": "3  later keys masked: −∞", "pattern": f"{len(names)}  softmax: weights",
    }  # fmt: skip
    rows, keys = axis_labels(shown, look.length, text)
    width = (1 - GAP * (len(names) - 1)) / len(names)
    at = (look.row - shown.row_start) // shown.cell
    row = {"y0": at - 0.5, "y1": at + 0.5, "x0": -0.5, "x1": len(keys) - 0.5}
    traces, shapes, notes, axes = [], [], [], {}
    for number, name in enumerate(names, 1):
        values = shown.maps[name]
        if look.hide_first and shown.key_start == 0 and shown.cell == 1:
            values = values.copy()
            values[:, 0] = np.nan
        low = (number - 1) * (width + GAP)
        own = str(number) if number > 1 else ""
        bar = {
            "orientation": "h", "x": low + width / 2, "xanchor": "center", "y": 1.01, "yanchor": "bottom",
            "len": width * 0.96, "thickness": 8, "tickfont": {"size": 11}, "ticklabelposition": "outside top",
        }  # fmt: skip
        traces.append({**_heat(name, values, rows, keys, bar, colours), "xaxis": f"x{own}", "yaxis": f"y{own}"})
        ring = {"color": colours.step, "width": 2}
        shapes.append({"type": "rect", "xref": f"x{own}", "yref": f"y{own}", "line": ring, **row})
        notes.append({
            "x": low, "xref": "paper", "xanchor": "left", "y": 1, "yref": "paper", "yanchor": "bottom", "yshift": 38,
            "text": titles[name], "showarrow": False, "font": {"size": 13, "color": colours.text},
        })
        axes[f"xaxis{own}"] = {"domain": [low, low + width], "anchor": f"y{own}", "tickangle": -90, **_axis(keys, 7)}
        axes[f"yaxis{own}"] = {
            "anchor": f"x{own}", "autorange": "reversed", "showticklabels": number == 1, "ticks": "", **_axis(rows, 12),
        }
    layout = {**axes, "shapes": shapes, "annotations": notes}
    look_of_all = {
        "height": height, "margin": {"l": 92, "r": 8, "t": 64, "b": 84 if shown.cell == 1 else 60},
        "plot_bgcolor": colours.grid, "font": {"size": 13, "color": colours.text}, "dragmode": False,
        "showlegend": False,
    }  # fmt: skip
    return {"data": traces, "layout": {**layout, **look_of_all}}


def _axis(labels: list[str], few: int) -> dict[str, object]:
    """Every cell labelled, or a few of them if there are many."""
    ticks: dict[str, object] = {"tickmode": "linear", "dtick": 1} if len(labels) <= MANY else {"nticks": few}
    return {
        **ticks, "type": "category", "tickfont": {"size": 10}, "showgrid": False, "zeroline": False,
        "fixedrange": True,
    }  # fmt: skip


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
) -> dict[str, object]:
    finite = np.where(np.isneginf(values), np.nan, values)
    hover = "query %{y}<br>key %{x}<br>%{customdata}<extra></extra>"
    if name == "pattern":
        roots = np.sqrt(finite)
        bar |= {"tickvals": [t**0.5 for t in TICKS], "ticktext": [f"{100 * t:.0f} %" for t in TICKS]}
        return {
            "type": "heatmap", "z": roots, "x": keys, "y": rows, "zmin": 0, "zmax": 1, "colorbar": bar,
            "colorscale": scale(colours.attention), "customdata": finite,
            "hovertemplate": hover.replace("%{customdata}", "weight %{customdata:.4f}"),
        }  # fmt: skip
    most = float(np.nanmax(np.abs(finite))) if np.isfinite(finite).any() else 1.0
    bar |= {"nticks": 5}
    return {
        "type": "heatmap", "z": finite, "x": keys, "y": rows, "zmin": -most, "zmax": most, "colorbar": bar,
        "colorscale": scale(colours.signed), "hovertemplate": hover.replace("%{customdata}", "%{z:.4f}"),
        "hoverongaps": False,
    }  # fmt: skip


def scale(stops: tuple[str, ...]) -> list[tuple[float, str]]:
    """Colours at even distances, as plotly takes a scale."""
    return [(i / (len(stops) - 1), stop) for i, stop in enumerate(stops)]
