"""What a head takes out of the values: weight x value by position, their sum z, and what each head adds."""

from __future__ import annotations

import numpy as np

from miniinfer.figures.attention.plots import scale
from miniinfer.figures.attention.words import PositionText, label
from miniinfer.figures.palette import Palette
from miniinfer.figures.plain import Spec, spec, title
from miniinfer.trace.attention.one_head import HeadRow


def mix_order(row: HeadRow, *, hide_first: bool) -> list[int]:
    """Positions by how much of z they make, the largest first, whichever sign."""
    order = np.argsort(-np.abs(row.shares), kind="stable").tolist()
    return [j for j in order if not (hide_first and j == 0)]


def mix_figure(
    row: HeadRow, text: PositionText, colours: Palette, count: int, *, hide_first: bool, height: int
) -> Spec:
    """The strongest positions' weight x value, all others together, and z, which is their sum."""
    order = mix_order(row, hide_first=hide_first)
    mixed, shares = row.mixed, row.shares
    lines = [mixed[j] for j in order[:count]]
    labels = [f"{label(j, text)}  {_share(shares[j])}" for j in order[:count]]
    rest = order[count:]
    if rest:
        lines.append(mixed[rest].sum(0))
        labels.append(f"the other {len(rest):,}  {_share(shares[rest].sum())}")
    if hide_first:
        labels.append("z less the first token")
        lines.append(row.z - mixed[0])
    else:
        labels.append("z, their sum")
        lines.append(row.z)
    values = np.stack(lines)
    most = float(np.abs(values).max()) or 1.0
    cells = {
        "type": "heatmap", "z": values, "y": labels, "zmin": -most, "zmax": most, "colorscale": scale(colours.signed),
        "colorbar": {"title": title("weight × value"), "thickness": 8, "nticks": 5, "tickfont": {"size": 11}},
        "hovertemplate": "%{y}<br>dimension %{x}: %{z:.4f}<extra></extra>",
    }  # fmt: skip
    above_sum = len(lines) - 1.5
    line = {
        "type": "line", "xref": "x domain", "yref": "y", "x0": 0, "x1": 1, "y0": above_sum, "y1": above_sum,
        "line": {"color": colours.text, "width": 1.5},
    }  # fmt: skip
    return spec(
        [cells], colours, height, x={"title": title("dimension of the head"), "showgrid": False, "nticks": 9},
        y={"autorange": "reversed", "tickmode": "linear", "dtick": 1, "showgrid": False}, showlegend=False,
        shapes=[line],
    )


def _share(share: float) -> str:
    """Whole percent, with a real minus; nothing below half a percent has a sign."""
    percent = round(100 * float(share))
    return f"{percent} %".replace("-", "\u2212")


def heads_added_figure(row: HeadRow, colours: Palette, height: int) -> Spec:
    """For every head of the layer: the length of its z and of what it adds to the residual stream."""
    heads = list(range(len(row.outputs)))
    norms = np.linalg.norm(row.all_z, axis=1)
    strength = [1.0 if h == row.head else 0.45 for h in heads]
    bars = [
        {
            "type": "bar", "x": heads, "y": values, "name": name, "marker": {"color": colour, "opacity": strength},
            "hovertemplate": "head %{x}: %{y:.3f}<extra></extra>",
        }
        for name, values, colour in (
            ("length of z", norms, colours.quiet), ("length of what it adds", row.outputs, colours.series[1]),
        )
    ]  # fmt: skip
    across = {"title": title("head"), "tickmode": "linear", "dtick": 1 if len(heads) <= 16 else 4, "showgrid": False}
    return spec(bars, colours, height, x=across, y={"rangemode": "tozero"})
