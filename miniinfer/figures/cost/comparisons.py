"""Plotly figures that hold two ways side by side: with and without the cache, two precisions, prefill and decode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from miniinfer.figures.cost.words import ms
from miniinfer.figures.palette import Palette
from miniinfer.figures.plain import log_axis, plain
from miniinfer.measure.records import OnOff, PrecisionComparison
from miniinfer.trace.records import StepMeta

LEAST_TOKENS = 8  # places of the output that a figure has room for


def cache_time_figure(lengths: Sequence[OnOff], colours: Palette, height: int) -> go.Figure:
    """A step with and without the cache over the length, both axes logarithmic."""
    figure = go.Figure()
    xs = [one.context_len for one in lengths]
    ways = (
        ("without the cache", [one.off for one in lengths], colours.series[3]),
        ("with the cache", [one.on for one in lengths], colours.series[2]),
    )
    for name, stats, colour in ways:
        figure.add_scatter(
            x=xs, y=[s.median_ms for s in stats], mode="lines+markers", name=name,
            line={"color": colour, "width": 2}, marker={"size": 8}, hovertemplate="%{y:.1f} ms",
            error_y={"type": "data", "symmetric": False, "array": [s.p90_ms - s.median_ms for s in stats],
                     "arrayminus": [s.median_ms - s.p10_ms for s in stats], "width": 3},
        )  # fmt: skip
    _length_axis(figure, xs)
    tops = [s.p90_ms for _, stats, _ in ways for s in stats]
    lows = [s.p10_ms for _, stats, _ in ways for s in stats]
    figure.update_yaxes(log_axis(lows + tops), title="ms a step (measured)")
    return plain(figure, colours, height)


def cache_ratio_figure(lengths: Sequence[OnOff], colours: Palette, height: int) -> go.Figure:
    """How many times as long, beside how many times as many positions are computed."""
    figure = go.Figure()
    xs = [one.context_len for one in lengths]
    figure.add_scatter(
        x=xs, y=xs, mode="lines", name="positions computed, without : with", hovertemplate="%{y:,} : 1",
        line={"color": colours.series[5], "width": 2, "dash": "dash"},
    )
    figure.add_scatter(
        x=xs, y=[one.ratio for one in lengths], mode="lines+markers+text", name="time, without : with (measured)",
        text=[f"{one.ratio:.1f}" for one in lengths], textposition="top center", textfont={"size": 11},
        line={"color": colours.series[1], "width": 2}, marker={"size": 8}, hovertemplate="%{y:.2f} : 1",
    )
    figure.add_hline(y=1, line={"color": colours.text, "width": 1, "dash": "dot"})
    _length_axis(figure, xs)
    figure.update_yaxes(log_axis([1.0, *xs, *(one.ratio for one in lengths)]), title="ratio")
    return plain(figure, colours, height)


def positions_figure(steps: Sequence[StepMeta], colours: Palette, height: int) -> go.Figure:
    """Positions that each step of a run computed, and those that it would have computed without the cache."""
    xs = [m.step for m in steps]
    ways = (
        ("without the cache", [m.context_len for m in steps], colours.series[3]),
        ("with the cache", [m.num_scheduled for m in steps], colours.series[2]),
    )
    figure = go.Figure([
        {"type": "scatter", "x": xs, "y": values, "name": name, "mode": "lines+markers", "hovertemplate": "%{y:,}",
         "line": {"color": colour, "width": 2, "shape": "hv"}, "marker": {"size": 5}}
        for name, values, colour in ways
    ])  # fmt: skip
    figure.update_xaxes(title="step", dtick=1 if len(xs) <= 30 else None)
    figure.update_yaxes(title="positions computed", rangemode="tozero")
    return plain(figure, colours, height, hovermode="x unified")


def _length_axis(figure: go.Figure, lengths: Sequence[int]) -> None:
    figure.update_xaxes(
        type="log", title="positions in the text", tickvals=list(lengths), ticktext=[f"{n:,}" for n in lengths]
    )


def margin_figure(found: PrecisionComparison, colours: Palette, height: int) -> go.Figure:
    """How far the best token was ahead at each place, in each precision, up to a little past the first difference."""
    figure = go.Figure()
    first = found.first_difference
    shades = (colours.series[1], colours.series[0], colours.series[3])
    for run, colour, symbol in zip(found.runs, shades, ("circle", "square", "diamond"), strict=False):
        tokens = run.tokens if first is None else run.tokens[: first + 1]  # after it they tell different texts
        figure.add_scatter(
            x=list(range(1, len(tokens) + 1)), y=[t.margin for t in tokens], mode="lines+markers", name=run.dtype,
            line={"color": colour, "width": 2}, marker={"size": 7, "symbol": symbol}, hovertemplate="%{y:.3f} logits",
        )
    if first is not None:
        figure.add_vline(
            x=first + 1, line={"color": colours.branch, "width": 2, "dash": "dot"}, annotation_text="first difference",
            annotation_position="top right", annotation_font={"color": colours.branch},
        )
    shown = len(found.runs[0].tokens) if first is None else max(first + 3, LEAST_TOKENS)
    figure.update_xaxes(title="output token", range=[0.5, shown + 0.5])
    figure.update_yaxes(title="lead of the best, in logits", rangemode="tozero")
    return plain(figure, colours, height)


def bars_figure(values: Mapping[str, float], shades: Sequence[str], colours: Palette, height: int) -> go.Figure:
    """One bar a name, in milliseconds."""
    figure = go.Figure(
        go.Bar(
            x=list(values.values()), y=list(values), orientation="h", width=0.6, marker_color=list(shades),
            text=[ms(v) for v in values.values()], textposition="auto", hovertemplate="%{y}: %{text}<extra></extra>",
        )
    )
    figure.update_xaxes(rangemode="tozero", title="ms")
    figure.update_yaxes(autorange="reversed", showgrid=False)
    return plain(figure, colours, height, showlegend=False)
