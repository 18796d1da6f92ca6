"""The next token before and after a what-if, as bars with the change in percentage points."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from miniinfer.figures.palette import Palette
from miniinfer.figures.plain import plain
from miniinfer.figures.sampling_words import TokenText, for_plotly, percent
from miniinfer.trace.records import FloatArray
from miniinfer.trace.shift import Shift

ROW = 26


def points(change: float) -> str:
    """+12.3 pp: a difference of two probabilities in percentage points."""
    value = 100 * change
    digits = 1 if abs(value) >= 1 else 2 if abs(value) >= 0.01 else 4
    sign = "+" if value > 0 else "\u2212" if value < 0 else "±"
    return f"{sign}{abs(value):.{digits}f} pp"


def shift_figure(shift: Shift, token_ids: Sequence[int], text: TokenText, colours: Palette) -> go.Figure:
    """Outline: before. Bar: after."""
    y = list(range(len(token_ids)))
    before = [float(shift.before[i]) for i in token_ids]
    after = [float(shift.after[i]) for i in token_ids]
    figure = go.Figure()
    figure.add_bar(
        x=after, y=y, orientation="h", width=0.58, name="after", marker_color=colours.probability,
        customdata=[percent(p) for p in after], hovertemplate="after %{customdata}<extra></extra>",
    )
    figure.add_bar(
        x=before, y=y, orientation="h", width=0.86, name="before",
        marker={"color": "rgba(0,0,0,0)", "line": {"color": colours.text, "width": 1.5}},
        customdata=[percent(p) for p in before], hovertemplate="before %{customdata}<extra></extra>",
    )
    figure.add_scatter(
        x=[max(pair) for pair in zip(before, after, strict=True)], y=y, mode="text", textposition="middle right",
        text=[f" {percent(b)} → {percent(a)}  <b>{points(a - b)}</b>" for b, a in zip(before, after, strict=True)],
        textfont={"color": colours.text, "size": 12}, hoverinfo="skip", cliponaxis=False, showlegend=False,
    )
    figure.update_yaxes(
        tickvals=y, ticktext=[for_plotly(text(i)) for i in token_ids], autorange="reversed", showgrid=False
    )
    figure.update_xaxes(tickformat=".0%", range=[0, max(*before, *after) * 1.5], nticks=6)
    return plain(figure, colours, ROW * len(y) + 60, barmode="overlay")


def moved_figure(moved: FloatArray, chosen: int, colours: Palette, height: int) -> go.Figure:
    """moved [H]: the probability that changes hands without each head; the chosen one in full strength."""
    heads = list(range(len(moved)))
    figure = go.Figure()
    figure.add_bar(
        x=heads, y=moved, marker={"color": colours.probability, "opacity": [1 if h == chosen else 0.5 for h in heads]},
        text=[points(float(m))[1:] for m in moved] if len(heads) <= 16 else None, textposition="outside",
        cliponaxis=False, hovertemplate="head %{x}: %{y:.3%}<extra></extra>",
    )
    figure.update_xaxes(title="head", tickmode="linear", dtick=1 if len(heads) <= 16 else 4, showgrid=False)
    figure.update_yaxes(tickformat=".1%", range=[0, 1.25 * max(float(moved.max()), 1e-6)], nticks=4)
    return plain(figure, colours, height, showlegend=False)
