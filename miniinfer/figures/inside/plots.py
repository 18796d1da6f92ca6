"""Values inside a step as plotly figures. Each has a table twin in inside/tables.py."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from miniinfer.figures.inside.picture import Picture, Scale, histogram, number
from miniinfer.figures.palette import Palette
from miniinfer.figures.plain import Spec, title
from miniinfer.trace.inside.records import TensorView
from miniinfer.trace.records import FloatArray

# Perceptually even and safe for the colour-blind. Signed: brown is negative, blue-green positive, 0 the background.
SIGNED = {
    False: ("#6b3d06", "#bf812d", "#ecd9b0", "#ffffff", "#a9dcd5", "#35978f", "#00463f"),
    True: ("#f2c879", "#b87a2a", "#4d3413", "#14171c", "#0f4440", "#2a9d93", "#9fece2"),
}
EVEN = {
    False: ("#ffffff", "#8fbdf2", "#2f74d8", "#0c2f73"),
    True: ("#14171c", "#1d4b8f", "#4a8ff0", "#dcebff"),
}
SHARES = {
    False: ("#ffffff", "#fbe3ad", "#e39a0b", "#7a4300"),
    True: ("#14171c", "#4f3604", "#c98613", "#ffe6ad"),
}
FONT = "Source Sans, sans-serif"  # as the page around it
BLANK = {False: "#c9cdd4", True: "#4b525d"}


def is_dark(colours: Palette) -> bool:
    return colours.text > "#8"


def ramp(stops: Sequence[str]) -> list[list[object]]:
    return [[i / (len(stops) - 1), colour] for i, colour in enumerate(stops)]


def heat_figure(view: TensorView, picture: Picture, scale: Scale, colours: Palette, height: int) -> Spec:
    """The matrix as colours; grey is what is hidden, cut or not finite."""
    dark = is_dark(colours)
    stops = SIGNED[dark] if scale.signed else (SHARES if view.name == "probs" else EVEN)[dark]
    sizes = picture.row_size > 1 or picture.column_size > 1
    start = "from " if sizes else ""
    if picture.folded:
        hover = f"{start}{view.column_unit} %{{y}} + %{{x}}: %{{z:.6g}}<extra></extra>"
    else:
        hover = (
            f"{start}{view.row_unit or 'row'} %{{y}}, {start}{view.column_unit} %{{x}}: %{{z:.6g}}<extra></extra>"
        )
    cells = {
        "type": "heatmap", "z": picture.cells, "x": list(picture.columns), "y": list(picture.rows),
        "colorscale": ramp(stops), "zmin": scale.low, "zmax": scale.high, "hovertemplate": hover, "hoverongaps": False,
        "colorbar": {"thickness": 10, "len": 1.0, "tickfont": {"size": 11}, "outlinewidth": 0, "nticks": 5, "xpad": 4},
    }  # fmt: skip
    what = view.column_unit if not picture.folded else f"{view.column_unit}, {len(picture.columns)} cells a line"
    across = {"title": title(what), "showgrid": False, **_ticks(picture.columns)}
    down = {
        "title": title(view.column_unit if picture.folded else view.row_unit), "autorange": "reversed",
        "showgrid": False, **_ticks(picture.rows),
    }  # fmt: skip
    return _spec([cells], colours, height, across, down, plot_bgcolor=BLANK[dark])


def _ticks(starts: Sequence[int], most: int = 8) -> dict[str, object]:
    """Whole numbers only, at the first value of a cell."""
    every = max(1, -(-len(starts) // most))
    shown = list(starts[::every])
    return {"tickvals": shown, "ticktext": [f"{value:,}" for value in shown]}


def histogram_figure(view: TensorView, colours: Palette, height: int) -> Spec:
    """How many values lie where, on a logarithmic count."""
    counts, edges = histogram(view.values)
    centres = (edges[1:] + edges[:-1]) / 2 if len(edges) else edges
    bars = {
        "type": "bar", "x": centres, "y": counts, "width": np.diff(edges), "marker": {"color": colours.step},
        "customdata": np.stack((edges[:-1], edges[1:]), 1) if len(edges) else None,
        "hovertemplate": "%{customdata[0]:.4g} to %{customdata[1]:.4g}: %{y:,} of them<extra></extra>",
    }  # fmt: skip
    top = float(np.log10(max(float(counts.max()), 1.0))) if len(counts) else 1.0
    up = {"type": "log", "title": title("values (log)"), "dtick": 1, "range": [-0.3, 1.08 * top + 0.1]}
    across = {"title": title(view.name), "nticks": 8}
    return _spec([bars], colours, height, across, up, bargap=0, showlegend=False)


def lines_figure(
    lines: dict[str, Sequence[float]], colours: Palette, height: int, *, y: str, log: bool = False,
    labels: Sequence[str] | None = None, mark: int | None = None,
) -> Spec:
    """One line each over the layers. labels: of the places on the x axis, else layer numbers. mark: a place to point
    at."""
    traces = [
        {
            "type": "scatter", "x": list(range(len(values))), "y": list(values), "mode": "lines+markers", "name": name,
            "line": {"color": colour, "width": 2}, "marker": {"size": 5}, "hovertemplate": "%{y:.6g}",
        }
        for (name, values), colour in zip(lines.items(), colours.series, strict=False)
    ]  # fmt: skip
    more: Spec = {}
    count = max((len(v) for v in lines.values()), default=0)
    across: Spec = {"range": [-0.5, max(count, 1) - 0.5]}  # no tick where there is no layer
    if labels is not None:
        every = max(1, -(-count // 10))
        shown = list(range(0, count, every))
        across |= {"tickvals": shown, "ticktext": [labels[i] for i in shown]}
        more["meta"] = {"places": list(labels)}  # what the pointer is told, also between two ticks
    else:
        across |= {"title": title("layer"), "nticks": 12}
    if mark is not None:
        line = {"color": colours.step, "width": 1.5, "dash": "dot"}
        ends = {"x0": mark, "x1": mark, "y0": 0, "y1": 1, "xref": "x", "yref": "y domain"}
        more["shapes"] = [{"type": "line", "line": line, **ends}]
    up: Spec = {"title": title(y), "type": "log" if log else "linear", "exponentformat": "power" if log else "none"}
    spread = [v for values in lines.values() for v in values if v > 0] if log else []
    if spread and max(spread) > 30 * min(spread):
        up["dtick"] = 1  # powers of ten only: the digits between them would fill the axis
    return _spec(traces, colours, height, across, up, showlegend=len(lines) > 1, hovermode="x unified", **more)


def stream_figure(norms: FloatArray, start: int, size: int, position: int, colours: Palette, height: int) -> Spec:
    """norms [L, columns] of the residual stream, each column `size` positions, on a logarithmic scale."""
    logs = np.log10(np.maximum(norms, 1e-30))
    low, high = float(logs.min()), float(logs.max())
    ticks = np.linspace(low, high if high > low else low + 1, 6)
    columns = [start + size * i for i in range(norms.shape[1])]
    cells = {
        "type": "heatmap", "z": logs, "x": columns, "y": list(range(len(norms))), "customdata": norms,
        "colorscale": ramp(EVEN[is_dark(colours)]), "zmin": low, "zmax": high if high > low else low + 1,
        "hovertemplate": "layer %{y}, position %{x}: norm %{customdata:.5g}<extra></extra>",
        "colorbar": {
            "thickness": 10, "outlinewidth": 0, "tickvals": ticks, "ticktext": [number(10**t) for t in ticks],
            "title": {"text": "norm (log)", "side": "right", "font": {"size": 11}}, "tickfont": {"size": 11},
        },
    }  # fmt: skip
    shown = start + (position - start) // size * size
    frame = {
        "type": "rect", "xref": "x", "yref": "y", "x0": shown - size / 2, "x1": shown + size / 2, "y0": -0.5,
        "y1": len(norms) - 0.5, "line": {"color": colours.branch, "width": 1.5},
    }  # fmt: skip
    ends = [columns[0] - size / 2, columns[-1] + size / 2]
    across = {"title": title("position"), "showgrid": False, "range": ends, **_ticks(columns, 12)}
    down = {"title": title("layer"), "autorange": "reversed", "showgrid": False, **_ticks(range(len(norms)), 10)}
    return _spec([cells], colours, height, across, down, shapes=[frame])


def difference_figure(
    differences: FloatArray, names: Sequence[str], colours: Palette, height: int
) -> Spec:
    """[tensors, L] largest differences on a logarithmic scale; white is bit-equal."""
    exact = differences == 0
    logs = np.where(exact, np.nan, np.log10(np.where(exact, 1, np.maximum(differences, 1e-30))))
    finite = logs[np.isfinite(logs)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (-8.0, -7.0)
    high = high if high > low else low + 1
    ticks = np.linspace(low, high, 5)
    cells = {
        "type": "heatmap", "z": logs, "x": list(range(differences.shape[1])), "y": list(names),
        "customdata": differences, "hoverongaps": False, "colorscale": ramp(EVEN[is_dark(colours)][1:]), "zmin": low,
        "zmax": high, "xgap": 1, "ygap": 1, "hovertemplate": "layer %{x}, %{y}: %{customdata:.3g}<extra></extra>",
        "showscale": bool(finite.size),  # where all is bit-equal there is nothing to scale
        "colorbar": {
            "thickness": 10, "outlinewidth": 0, "tickvals": ticks, "ticktext": [f"{10**t:.1e}" for t in ticks],
            "title": {"text": "largest difference (log)", "side": "right", "font": {"size": 11}},
            "tickfont": {"size": 11},
        },
    }  # fmt: skip
    across = {"title": title("layer"), "nticks": 16, "showgrid": False}
    return _spec([cells], colours, height, across, {"autorange": "reversed", "showgrid": False})


def _spec(traces: list[Spec], colours: Palette, height: int, x: Spec, y: Spec, **layout: object) -> Spec:
    axis = {"gridcolor": colours.grid, "zeroline": False, "fixedrange": True, "automargin": True}
    look = {
        "height": height, "margin": {"l": 4, "r": 4, "t": 30 if layout.get("showlegend") else 6, "b": 4},
        "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "dragmode": False,
        "font": {"size": 12, "color": colours.text, "family": FONT},
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
    }
    return {"data": traces, "layout": {**look, "xaxis": {**axis, **x}, "yaxis": {**axis, **y}, **layout}}
