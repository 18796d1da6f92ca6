"""The roofline: each kind of stage as a point under what memory and arithmetic of this machine allow."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from miniinfer.figures.cost_words import megabytes, ms, stage_name
from miniinfer.figures.palette import Palette
from miniinfer.figures.plain import log_axis, plain
from miniinfer.measure.records import Calibration, CountedParts
from miniinfer.measure.summary import StageSum, by_stage

LABELLED = 0.05  # points with at least this share of their step have a name
NEAR_ACROSS, NEAR_UP = 0.25, 1.0  # decades
ROOM = 0.65  # decades that a line of names needs to its left
MOST_NAMES = 4


def roofline_figure(
    steps: Sequence[CountedParts], calibration: Calibration | None, dtype: str, order: Sequence[str],
    colours: Palette, height: int,
) -> go.Figure:
    """Each kind of stage as a point under the machine's two roofs, if these are known. Its area is its time's share of
    the step."""
    figure = go.Figure()
    points = {
        step.phase: [s for s in by_stage(step) if s.operations and s.num_bytes and s.ms > 0] for step in steps
    }
    if calibration is not None:
        xs = [s.intensity for stages in points.values() for s in stages]
        _roofs(figure, calibration, dtype, xs, colours)
    look = {"prefill": (colours.series[0], "square"), "decode": (colours.series[1], "circle")}
    named: list[tuple[list[StageSum], float, str]] = []  # neighbours, the time of their step, their colour
    for step in steps:
        stages = points[step.phase]
        colour, symbol = look[step.phase]
        whole = step.step_ms or 1.0
        figure.add_scatter(
            x=[s.intensity for s in stages], y=[s.operations_per_second / 1e9 for s in stages],
            mode="markers", name=step.phase,
            marker={"color": colour, "symbol": symbol, "size": [_size(s.ms / whole) for s in stages],
                    "opacity": 0.75, "line": {"width": 1, "color": colours.text}},
            customdata=[[stage_name(s.stage, order), ms(s.ms), megabytes(s.num_bytes), s.ms / whole] for s in stages],
            hovertemplate="%{customdata[0]}: %{customdata[1]}, %{customdata[3]:.1%} of the step<br>"
            "%{customdata[2]} moved, %{x:.2f} operations a byte, %{y:.2f} GFLOP/s",
        )  # fmt: skip
        places = neighbours([s for s in stages if s.ms / whole >= LABELLED])
        named += [(place, whole, colour) for place in places]
    # From left to right: a line of names stands at the left of its points if there is room up to the place before.
    named.sort(key=lambda one: one[0][0].intensity)
    for number, (place, whole, colour) in enumerate(named):
        before = named[number - 1][0][0].intensity if number else 0.0
        left = before == 0 or math.log10(place[0].intensity / before) > ROOM
        _add_names(figure, place, whole, order, colour, left=left)
    shown = [s for stages in points.values() for s in stages]
    if shown:
        figure.update_xaxes(log_axis([s.intensity for s in shown]))
        figure.update_yaxes(log_axis([s.operations_per_second / 1e9 for s in shown], digits=(1,)))
    figure.update_xaxes(title="operations for each byte moved (computed)")
    figure.update_yaxes(title="GFLOP/s (measured)")
    return plain(figure, colours, height)


def _add_names(
    figure: go.Figure, place: Sequence[StageSum], whole: float, order: Sequence[str], colour: str, *, left: bool
) -> None:
    """One line beside the largest of some neighbours, the slowest first. left: on which side."""
    ranked = sorted(place, key=lambda s: -s.ms)
    names = [stage_name(s.stage, order) for s in ranked[:MOST_NAMES]] + ["…"] * (len(ranked) > MOST_NAMES)
    away = _size(ranked[0].ms / whole) / 2 + 6
    figure.add_annotation(
        x=math.log10(ranked[0].intensity), y=math.log10(ranked[0].operations_per_second / 1e9), showarrow=False,
        text=", ".join(names), xanchor="right" if left else "left", xshift=-away if left else away, yanchor="middle",
        font={"size": 11, "color": colour},
    )


def _size(share: float) -> float:
    """Diameter in px of a point, by its share of the step."""
    return 7 + 40 * share**0.5


def _roofs(
    figure: go.Figure, calibration: Calibration, dtype: str, intensities: Sequence[float], colours: Palette
) -> None:
    """What memory and arithmetic allow, over operations for each byte."""
    rate, bandwidth = calibration.operations_per_second[dtype], calibration.bytes_per_second
    ridge = rate / bandwidth
    reach = [*intensities, ridge]  # of a recording there may be no point at all
    low, high = min(reach) / 2, max(reach) * 2
    figure.add_scatter(
        x=[low, ridge], y=[low * bandwidth / 1e9, rate / 1e9], mode="lines", name=f"memory, {bandwidth / 1e9:.1f} GB/s",
        line={"color": colours.series[2], "width": 2.5}, hoverinfo="skip",
    )
    figure.add_scatter(
        x=[ridge, high], y=[rate / 1e9] * 2, mode="lines", name=f"arithmetic, {rate / 1e9:,.0f} GFLOP/s",
        line={"color": colours.text, "width": 2.5}, hoverinfo="skip",
    )


def neighbours(stages: Sequence[StageSum]) -> list[list[StageSum]]:
    """Points that lie too close for a name each: within a quarter of a decade across and a decade up."""
    found: list[list[StageSum]] = []
    for stage in stages:
        for place in found:
            across = abs(math.log10(stage.intensity / place[0].intensity))
            up = abs(math.log10(stage.operations_per_second / place[0].operations_per_second))
            if across < NEAR_ACROSS and up < NEAR_UP:
                place.append(stage)
                break
        else:
            found.append([stage])
    return found
