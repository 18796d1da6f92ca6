"""RoPE as pictures: pairs of dimensions turned by their angles, and the score over the distance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from miniinfer.figures.palette import Palette
from miniinfer.figures.plain import Spec, spec, title
from miniinfer.trace.attention.rotation import Rotation


def spread_pairs(rotation: Rotation, count: int) -> list[int]:
    """Pairs from the fastest to the slowest, evenly spread."""
    last = len(rotation.frequencies) - 1
    return sorted({round(i * last / (count - 1)) for i in range(count)})


def strongest_pairs(rotation: Rotation, count: int) -> list[int]:
    """Those that give most to q . k, whichever sign; the strongest first."""
    return np.argsort(-np.abs(rotation.products), kind="stable")[:count].tolist()


def pairs_figure(rotation: Rotation, pairs: Sequence[int], colours: Palette, height: int) -> Spec:
    """One small plane a pair: q and k before (dotted) and after (solid) the turn; each plane has its own scale.

    All planes stand in one pair of axes, a unit apart: an axis for each took plotly a quarter of a second.
    """
    vectors = (
        ("q before", rotation.q_before, colours.step, "dot"), ("q after", rotation.q_after, colours.step, "solid"),
        ("k before", rotation.k_before, colours.kv, "dot"), ("k after", rotation.k_after, colours.kv, "solid"),
    )  # fmt: skip
    reach = np.max([np.linalg.norm(values[list(pairs)], axis=1) for _, values, _, _ in vectors], axis=0)
    scale = 0.44 / np.where(reach > 0, reach, 1)
    traces: list[dict[str, object]] = []
    for name, values, colour, dash in vectors:
        x, y, told = [], [], []
        for place, i in enumerate(pairs):
            end = values[i] * scale[place]
            x += [place, place + float(end[0]), None]
            y += [0.0, float(end[1]), None]
            told += ["", f"pair {i}: ({values[i][0]:.4f}, {values[i][1]:.4f})", ""]
        solid = dash == "solid"
        traces.append({
            "type": "scatter", "x": x, "y": y, "mode": "lines+markers", "name": name, "customdata": told,
            "line": {"color": colour, "dash": dash, "width": 2.5 if solid else 1.5},
            "marker": {"size": [0, 7 if solid else 5, 0] * len(pairs), "color": colour},
            "hovertemplate": f"{name}, %{{customdata}}<extra></extra>",
        })  # fmt: skip
    frequencies = [float(rotation.frequencies[i]) for i in pairs]
    heads = [
        f"pair {i}<br>{_degrees(f)} a position<br>q by {_turns(rotation.position * f)}"
        for i, f in zip(pairs, frequencies, strict=True)
    ]
    gives = [f"gives {signed(float(rotation.products[i]))}" for i in pairs]
    places = list(range(len(pairs)))
    for texts, y_at, colour, position in (
        (heads, 0.5, colours.quiet, "top center"), (gives, -0.5, colours.text, "bottom center"),
    ):  # fmt: skip
        traces.append({
            "type": "scatter", "x": places, "y": [y_at] * len(pairs), "mode": "text", "text": texts,
            "textposition": position, "textfont": {"size": 11, "color": colour}, "hoverinfo": "skip",
            "showlegend": False, "cliponaxis": False,
        })  # fmt: skip
    axis = {"showgrid": False, "zeroline": False, "showticklabels": False, "fixedrange": True}
    planes = [
        {"type": "circle", "x0": p - 0.46, "x1": p + 0.46, "y0": -0.46, "y1": 0.46, "layer": "below",
         "line": {"color": colours.grid, "width": 1}}
        for p in places
    ]  # fmt: skip
    return {
        "data": traces,
        "layout": {
            "height": height, "margin": {"l": 8, "r": 8, "t": 34, "b": 8}, "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"size": 13, "color": colours.text}, "dragmode": False, "shapes": planes,
            "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
            "xaxis": {**axis, "range": [-0.5, len(pairs) - 0.5]},
            "yaxis": {**axis, "range": [-0.72, 1.0], "scaleanchor": "x"},
        },
    }


def _degrees(angle: float) -> str:
    value = float(np.degrees(angle))
    return f"{value:.2g}°" if value < 10 else f"{value:.0f}°"


def _turns(angle: float) -> str:
    turns = angle / (2 * np.pi)
    return _degrees(angle) if turns < 1 else f"{turns:,.1f} turns"


def signed(value: float) -> str:
    """+1.234 or −1.234, with a real minus."""
    return f"{value:+.3f}".replace("-", "\u2212")


def distance_figure(rotation: Rotation, colours: Palette, height: int) -> Spec:
    """The score that these two vectors would have at every distance; the dot is where they stand."""
    at = rotation.position - rotation.key
    traces: list[Spec] = [{
        "type": "scatter", "x": rotation.distances, "y": rotation.scores, "mode": "lines", "showlegend": False,
        "line": {"color": colours.series[1], "width": 2},
        "hovertemplate": "distance %{x}: score %{y:.4f}<extra></extra>",
    }]  # fmt: skip
    if at < len(rotation.scores):
        traces.append({
            "type": "scatter", "x": [at], "y": [float(rotation.scores[at])], "mode": "markers", "showlegend": False,
            "marker": {"color": colours.step, "size": 11},
            "hovertemplate": "here: distance %{x}, %{y:.4f}<extra></extra>",
        })  # fmt: skip
    across = {"title": title("distance of the query from the key, in positions"), "rangemode": "tozero"}
    return spec(traces, colours, height, x=across, y={"title": title("q · k / √D")}, showlegend=False)
