"""Where the time of a run's own steps went: what the recorder kept of each, as it was stepped. Pure functions."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from miniinfer.figures.cost.plots import GROUP_NAMES, group_colours
from miniinfer.figures.cost.stages import group_stage_ms
from miniinfer.figures.cost.words import ms
from miniinfer.figures.palette import Palette
from miniinfer.figures.plain import plain
from miniinfer.measure.groups import GROUPS
from miniinfer.measure.records import StageTime, StepParts
from miniinfer.trace.records import StepMeta

RECORDING = "recording"
MOST_BARS = 200  # steps in one picture
ROOM = 1.35  # of the slowest usual step


@dataclass(frozen=True)
class RunTimes:
    """Milliseconds of a run. to_first: all steps up to the one that chose the first token; per_output: the median of
    the decode steps, None before the first of them."""

    to_first: float
    first_steps: int
    per_output: float | None
    decode_steps: int


def run_times(steps: Sequence[StepMeta]) -> RunTimes | None:
    """None before the first token."""
    first = next((i for i, m in enumerate(steps) if m.token_id is not None), None)
    if first is None:
        return None
    later = [m.step_ms for m in steps[first + 1 :]]
    return RunTimes(
        sum(m.step_ms for m in steps[: first + 1]), first + 1, statistics.median(later) if later else None, len(later)
    )


def parts_of(steps: Sequence[StepMeta]) -> StepParts:
    """Steps of one phase told as one. Their gap is what the recorder took beside the stages."""
    stages: dict[str, float] = {}
    for meta in steps:
        for name, taken in meta.stage_ms.items():
            stages[name] = stages.get(name, 0.0) + taken
    whole = sum(m.step_ms + (m.recording_ms or 0.0) for m in steps)
    return StepParts(
        steps[0].phase, sum(m.num_scheduled for m in steps), steps[-1].context_len, whole,
        tuple(StageTime(name, None, taken) for name, taken in stages.items()),
    )


def prefill_and_decode(steps: Sequence[StepMeta], cursor: int) -> tuple[list[StepMeta], list[StepMeta]]:
    """What to hold against each other. The step at the cursor is one of them; the other is the whole prefill, or the
    newest decode step."""
    here = steps[cursor - 1 : cursor] if cursor else []
    prefill = [m for m in here if m.phase == "prefill"] or [m for m in steps if m.phase == "prefill"]
    decode = [m for m in here if m.phase == "decode"] or [m for m in steps if m.phase == "decode"][-1:]
    return prefill, decode


def steps_window(steps: Sequence[StepMeta], cursor: int) -> Sequence[StepMeta]:
    """At most MOST_BARS of them, with the one at the cursor; at the newest ones where it is."""
    stop = min(len(steps), max(cursor + MOST_BARS // 2, MOST_BARS))
    return steps[max(0, stop - MOST_BARS) : stop]


def steps_time_figure(steps: Sequence[StepMeta], cursor: int, colours: Palette, height: int) -> go.Figure:
    """A bar a step, cut into the parts of the step, with what recording took on top; the one at the cursor ringed."""
    shades = group_colours(colours)
    found = [group_stage_ms(m.stage_ms) for m in steps]
    xs = [m.step for m in steps]
    bars = [
        (GROUP_NAMES.get(group, group), [parts[group] for parts in found], shades[group]) for group in GROUPS
    ] + [(RECORDING, [m.recording_ms or 0.0 for m in steps], colours.cut)]
    figure = go.Figure([
        {"type": "bar", "x": xs, "y": values, "name": name, "marker": {"color": colour},
         "hovertemplate": "%{y:.2f} ms"}
        for name, values, colour in bars
    ])  # fmt: skip
    wholes = [m.step_ms + (m.recording_ms or 0.0) for m in steps]
    top = _top(steps, wholes)
    figure.update_xaxes(title="step", dtick=1 if len(xs) <= 30 else None, range=[xs[0] - 0.6, xs[-1] + 0.6])
    figure.update_yaxes(title="ms", range=[0, top])
    for meta, whole in zip(steps, wholes, strict=True):
        if whole > top:
            figure.add_annotation(
                x=meta.step, y=top, text=f"cut: {ms(whole)}", showarrow=False, xanchor="center",
                yanchor="top", bgcolor=colours.grid, font={"size": 11, "color": colours.text},
            )
    if xs[0] <= cursor <= xs[-1]:
        figure.add_shape(
            type="rect", x0=cursor - 0.5, x1=cursor + 0.5, y0=0, y1=min(wholes[cursor - xs[0]], top),
            line={"color": colours.step, "width": 2},
        )
    return plain(figure, colours, height, barmode="stack", hovermode="x unified").update_layout(bargap=0.1)


def _top(steps: Sequence[StepMeta], wholes: Sequence[float]) -> float:
    """A prefill can be many times a decode step: the scale follows the decode steps, and what leaves it is cut."""
    decode = sorted(w for m, w in zip(steps, wholes, strict=True) if m.phase == "decode")
    most = max(wholes)
    return min(most * 1.05, decode[int(0.95 * (len(decode) - 1))] * ROOM) if len(decode) >= 3 else most * 1.05
