"""The roofline: each kind of stage as a point under what memory and arithmetic of this machine allow."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from miniinfer.figures.cost.words import megabytes, ms, stage_name
from miniinfer.figures.palette import Palette
from miniinfer.figures.plain import log_axis, plain
from miniinfer.measure.records import Calibration, CountedParts
from miniinfer.measure.summary import StageSum, by_stage

LABELLED = 0.05  # points with at least this share of their step have a name
NEAR, NEAR_UP = 0.4, 1.5  # decades across and up within which points share their names' place
UNDER_ROOF = 0.5  # decades below the roof from which on names fit under it
ROOM_BELOW, ROOM_ABOVE = 0.6, 1.3  # decades for names, beside the points
MOST_NAMES, A_LINE = 6, 2


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
    # Phase, milliseconds of its step, and neighbours that share the place of their names.
    named: list[tuple[str, float, list[StageSum]]] = []
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
        named += [(step.phase, whole, place) for place in neighbours([s for s in stages if s.ms / whole >= LABELLED])]
    shown = [s for stages in points.values() for s in stages]
    above: list[float] = []  # where names stand above their points already
    for phase, whole, place in named:
        highest, at = max(s.operations_per_second for s in place), max(place, key=lambda s: s.ms).intensity
        high = calibration is None or math.log10(_roof(calibration, dtype, at) / highest) < UNDER_ROOF
        up = high and not any(abs(math.log10(at / other)) < NEAR for other in above)
        above += [at] * up
        _add_names(figure, place, whole, order, look[phase][0], up=up)
    if shown:
        rates = [s.operations_per_second / 1e9 for s in shown]
        top = max(*rates, calibration.operations_per_second[dtype] / 1e9 if calibration else 0)
        figure.update_xaxes(log_axis([s.intensity for s in shown]))
        figure.update_yaxes(
            log_axis(rates, digits=(1,)), range=[math.log10(min(rates)) - ROOM_BELOW, math.log10(top) + ROOM_ABOVE]
        )
    figure.update_xaxes(title="operations for each byte moved (computed)")
    figure.update_yaxes(title="GFLOP/s (measured)")
    return plain(figure, colours, height)


def _add_names(
    figure: go.Figure, place: Sequence[StageSum], whole: float, order: Sequence[str], colour: str, *, up: bool
) -> None:
    """Above or below some neighbours, the slowest first. whole: milliseconds of their step."""
    ranked = sorted(place, key=lambda s: -s.ms)
    names = [stage_name(s.stage, order) for s in ranked[:MOST_NAMES]] + ["…"] * (len(ranked) > MOST_NAMES)
    lines = [", ".join(names[i : i + A_LINE]) for i in range(0, len(names), A_LINE)]
    outermost = (max if up else min)(place, key=lambda s: s.operations_per_second)
    away = _size(outermost.ms / whole) / 2 + 4
    figure.add_annotation(
        x=math.log10(ranked[0].intensity), y=math.log10(outermost.operations_per_second / 1e9), showarrow=False,
        text=",<br>".join(lines), yanchor="bottom" if up else "top", yshift=away if up else -away,
        font={"size": 11, "color": colour},
    )


def _size(share: float) -> float:
    """Diameter in px of a point, by its share of the step."""
    return 7 + 40 * share**0.5


def _roof(calibration: Calibration, dtype: str, intensity: float) -> float:
    """Operations a second that the machine allows at so many of them for each byte."""
    return min(calibration.bytes_per_second * intensity, calibration.operations_per_second[dtype])


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
    """Points that lie too close for names of their own."""
    found: list[list[StageSum]] = []
    for stage in sorted(stages, key=lambda s: -s.ms):
        for place in found:
            across = abs(math.log10(stage.intensity / place[0].intensity))
            up = abs(math.log10(stage.operations_per_second / place[0].operations_per_second))
            if across < NEAR and up < NEAR_UP:
                place.append(stage)
                break
        else:
            found.append([stage])
    return found
