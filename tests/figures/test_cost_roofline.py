"""The roofline's points, names and roofs."""

from __future__ import annotations

import dataclasses

from miniinfer.figures.cost_roofline import roofline_figure
from miniinfer.figures.palette import LIGHT
from miniinfer.measure.records import CountedParts
from tests.measure.helpers import calibration, step_times


def notes(*steps: CountedParts) -> list[tuple[str, str]]:
    figure = roofline_figure(steps, calibration(), "float32", ("temperature",) * 6, LIGHT, 300)
    return [(note.text, note.xanchor) for note in figure.layout.annotations]


def test_points_that_share_a_place_share_a_line_of_names_the_slowest_first() -> None:
    assert notes(step_times()) == [("mlp_hidden, qkv_proj, unembed, Temperature", "right")]


def test_names_of_two_phases_never_lie_on_each_other() -> None:
    """A prompt of one token does for each byte what a decode step does."""
    sides = [side for _, side in notes(step_times("prefill", 1), step_times())]
    assert sides == ["right", "left"], "one at each side of the place"
    sides = [side for _, side in notes(step_times("prefill", 50), step_times())]
    assert sides == ["right", "right"], "far from each other there is room for both"


def test_a_step_without_times_has_roofs_and_no_point() -> None:
    """A recording may have kept the whole of its steps and no stage."""
    bare = dataclasses.replace(step_times(), stages=(), costs=())
    figure = roofline_figure([bare], calibration(), "float32", (), LIGHT, 300)
    assert [len(trace.x) for trace in figure.data] == [2, 2, 0]
