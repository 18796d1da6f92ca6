"""Plotly figure of the lesson: a lane a request against wall time. A pure function of an outcome and colours."""

from __future__ import annotations

import plotly.graph_objects as go

from miniinfer.figures.palette import Palette
from miniinfer.figures.plain import plain
from miniinfer.trace.batch.outcome import BatchOutcome, LanePart
from miniinfer.trace.batch.records import LaneState

# In the order of the legend. What is not here leaves its lane empty: not arrived yet, finished, refused.
SHOWN = {
    LaneState.WAITING: "waiting", LaneState.PREFILL: "prefill", LaneState.DECODE: "decode",
    LaneState.STALLED: "stalled", LaneState.PREEMPTED: "preempted", LaneState.IDLE: "idle, wasted",
}  # fmt: skip


def lane_colours(colours: Palette) -> dict[LaneState, str]:
    """The same as in the picture of the first view (components/batching/colours.js)."""
    return {
        LaneState.WAITING: colours.grid, LaneState.PREFILL: colours.step, LaneState.DECODE: colours.kv,
        LaneState.STALLED: colours.cut, LaneState.PREEMPTED: colours.series[3], LaneState.IDLE: colours.probability,
    }  # fmt: skip


def lanes_figure(outcome: BatchOutcome, until_ms: float, colours: Palette, height: int) -> go.Figure:
    """until_ms: where the time axis ends, the same for figures that stand side by side."""
    figure = go.Figure()
    shades = lane_colours(colours)
    for state, name in SHOWN.items():
        parts = [part for part in outcome.lanes if part.state is state]
        figure.add_bar(
            orientation="h", name=name, showlegend=bool(parts), y=[lane_name(outcome, p.request_id) for p in parts],
            base=[p.start_ms for p in parts], x=[p.end_ms - p.start_ms for p in parts],
            marker={"color": shades[state], "line": {"width": 1, "color": "rgba(0,0,0,0)"},
                    "pattern": {"shape": "/" if state is LaneState.IDLE else "", "size": 5, "solidity": 0.35}},
            hovertext=[_words(p) for p in parts], hovertemplate="%{hovertext}<extra></extra>",
        )  # fmt: skip
    names = [lane_name(outcome, view.request_id) for view in outcome.requests]
    figure.update_yaxes(
        categoryorder="array", categoryarray=names[::-1], range=[-0.6, len(names) - 0.4], tickvals=names
    )
    figure.update_xaxes(range=[0, until_ms * 1.02], title="ms of engine time (measured)")
    figure.update_layout(barmode="overlay")
    return plain(figure, colours, height)


def outcome_line(outcome: BatchOutcome) -> str:
    """The title of its lanes."""
    t = outcome.totals
    return (
        f"{outcome.settings.batching}: {t.wasted_slots:,} of {outcome.computed_slots:,} slots wasted "
        f"({100 * outcome.wasted_share:.0f} %), {t.steps} steps, {t.wall_ms:,.0f} ms"
    )


def lane_name(outcome: BatchOutcome, request_id: str) -> str:
    """The longest is marked: it is the one that a static batch waits for. No markup: the id is a user's text."""
    name = request_id.replace("&", "&amp;").replace("<", "&lt;")
    return f"{name} (longest)" if request_id == outcome.longest else name


def _words(part: LanePart) -> str:
    steps = f"step {part.first}" if part.first == part.last else f"steps {part.first} to {part.last}"
    wasted = f", {part.wasted} wasted" if part.wasted else ""
    return f"{part.state.value}, {steps}, {part.end_ms - part.start_ms:.0f} ms, {part.slots} slots{wasted}"
