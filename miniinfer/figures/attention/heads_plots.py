"""All heads of a model as one map: layers from left to right, heads from top to bottom, a click chooses one."""

from __future__ import annotations

import numpy as np

from miniinfer.figures.attention.plots import scale
from miniinfer.figures.palette import Palette
from miniinfer.figures.plain import BELOW_BUTTONS, Spec, spec, title
from miniinfer.trace.records import FloatArray

WIDTH_FOR = 1000  # px that the marks are sized for; a wider page has room between them


def heads_map(
    values: FloatArray, chosen: tuple[int, int], what: str, colours: Palette, *, most: float, height: int = 300
) -> Spec:
    """values [L, H]; NaN is left empty. most: the end of the scale. what: what a cell says, for scale and hover.
    height: px that the heads may take."""
    num_layers, num_heads = values.shape
    row = max(10, min(24, height // num_heads))
    size = max(6, min(row - 3, WIDTH_FOR // num_layers - 4))
    layers, heads = np.indices(values.shape).reshape(2, -1)
    flat = values.reshape(-1)
    known = ~np.isnan(flat)
    squares = {
        "type": "scatter", "x": layers[known], "y": heads[known], "mode": "markers", "showlegend": False,
        "marker": {
            "symbol": "square", "size": size, "color": flat[known], "cmin": 0, "cmax": most,
            "colorscale": scale(colours.attention), "line": {"color": colours.grid, "width": 1},
            "colorbar": {
                "thickness": 8, "len": 1.05, "tickformat": ".0%" if most >= 0.05 else ".1%",
                "title": {"text": what, "side": "right", "font": {"size": 11}}, "tickfont": {"size": 11},
            },
        },
        "hovertemplate": f"layer %{{x}}, head %{{y}}<br>{what}: %{{marker.color:.1%}}<extra></extra>",
    }  # fmt: skip
    ring = {
        "type": "scatter", "x": [chosen[0]], "y": [chosen[1]], "mode": "markers", "showlegend": False,
        "hoverinfo": "skip",
        "marker": {"symbol": "square-open", "size": size + 4, "color": colours.text, "line": {"width": 3}},
    }  # fmt: skip
    across = {"title": title("layer"), "range": [-0.7, num_layers - 0.3], "showgrid": False, "nticks": 16}
    down = {
        "title": title("head"), "range": [num_heads - 0.4, -0.6], "showgrid": False, "tickmode": "linear",
        "dtick": 1 if num_heads <= 16 else 4,
    }  # fmt: skip
    return spec(
        [squares, ring], colours, row * num_heads + 80, x=across, y=down, showlegend=False, margin=BELOW_BUTTONS
    )
