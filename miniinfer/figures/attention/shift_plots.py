"""The next token before and after a what-if, as bars with the change in percentage points."""

from __future__ import annotations

from collections.abc import Sequence

from miniinfer.figures.palette import Palette
from miniinfer.figures.plain import Spec, spec, title
from miniinfer.figures.sampling.words import TokenText, for_plotly, percent
from miniinfer.trace.records import FloatArray
from miniinfer.trace.shift import Shift

ROW = 26


def points(change: float) -> str:
    """+12.3 pp: a difference of two probabilities in percentage points."""
    value = 100 * change
    digits = 1 if abs(value) >= 1 else 2 if abs(value) >= 0.01 else 4
    sign = "+" if value > 0 else "\u2212" if value < 0 else "±"
    return f"{sign}{abs(value):.{digits}f} pp"


def shift_figure(shift: Shift, token_ids: Sequence[int], text: TokenText, colours: Palette) -> Spec:
    """Outline: before. Bar: after."""
    y = list(range(len(token_ids)))
    before = [float(shift.before[i]) for i in token_ids]
    after = [float(shift.after[i]) for i in token_ids]
    bars = [
        {
            "type": "bar", "x": values, "y": y, "orientation": "h", "width": width, "name": name, "marker": marker,
            "customdata": [percent(p) for p in values], "hovertemplate": f"{name} %{{customdata}}<extra></extra>",
        }
        for name, values, width, marker in (
            ("after", after, 0.58, {"color": colours.probability}),
            ("before", before, 0.86, {"color": "rgba(0,0,0,0)", "line": {"color": colours.text, "width": 1.5}}),
        )
    ]  # fmt: skip
    told = {
        "type": "scatter", "x": [max(pair) for pair in zip(before, after, strict=True)], "y": y, "mode": "text",
        "text": [f" {percent(b)} → {percent(a)}  <b>{points(a - b)}</b>" for b, a in zip(before, after, strict=True)],
        "textposition": "middle right", "textfont": {"color": colours.text, "size": 12}, "hoverinfo": "skip",
        "cliponaxis": False, "showlegend": False,
    }  # fmt: skip
    down = {
        "tickvals": y, "ticktext": [for_plotly(text(i)) for i in token_ids], "autorange": "reversed", "showgrid": False,
    }  # fmt: skip
    across = {"tickformat": ".0%", "range": [0, max(*before, *after) * 1.5], "nticks": 6}
    return spec([*bars, told], colours, ROW * len(y) + 60, x=across, y=down, barmode="overlay")


def moved_figure(moved: FloatArray, chosen: int, colours: Palette, height: int) -> Spec:
    """moved [H]: the probability that changes hands without each head; the chosen one in full strength."""
    heads = list(range(len(moved)))
    few = len(heads) <= 16
    bars = {
        "type": "bar", "x": heads, "y": moved, "textposition": "outside", "cliponaxis": False,
        "marker": {"color": colours.probability, "opacity": [1 if h == chosen else 0.5 for h in heads]},
        "text": [points(float(m))[1:] for m in moved] if few else None,
        "hovertemplate": "head %{x}: %{y:.3%}<extra></extra>",
    }  # fmt: skip
    across = {"title": title("head"), "tickmode": "linear", "dtick": 1 if few else 4, "showgrid": False}
    up = {"tickformat": ".1%", "range": [0, 1.25 * max(float(moved.max()), 1e-6)], "nticks": 4}
    return spec([bars], colours, height, x=across, y=up, showlegend=False)
