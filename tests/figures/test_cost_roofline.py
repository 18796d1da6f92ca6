"""The roofline's points, names and roofs."""

from __future__ import annotations

import dataclasses

from miniinfer.figures.cost.roofline import roofline_figure
from miniinfer.figures.palette import LIGHT
from miniinfer.measure.records import CountedParts
from tests.measure.helpers import calibration, step_times


def notes(*steps: CountedParts) -> list[tuple[str, str]]:
    figure = roofline_figure(steps, calibration(), "float32", ("temperature",) * 6, LIGHT, 300)
    return [(note.text, note.yanchor) for note in figure.layout.annotations]


def test_points_that_share_a_place_share_their_names_the_slowest_first() -> None:
    """2,000 operations in 4 ms are far below any roof: there is room under it."""
    assert notes(step_times()) == [("mlp_hidden, qkv_proj,<br>unembed, Temperature", "top")]


def test_names_stand_above_points_at_the_roof_and_of_two_phases_on_two_sides() -> None:
    """A prompt of one token does for each byte what a decode step does."""

    def quick(phase: str, tokens: int) -> CountedParts:
        step = step_times(phase, tokens)
        stages = tuple(dataclasses.replace(s, ms=s.ms / 1e4) for s in step.stages)
        return dataclasses.replace(step, stages=stages, step_ms=step.step_ms / 1e4)

    assert [side for _, side in notes(quick("prefill", 1), quick("decode", 1))] == ["bottom", "top"]
    assert [side for _, side in notes(quick("prefill", 50), quick("decode", 1))] == ["bottom", "bottom"]


def test_a_step_without_times_has_roofs_and_no_point() -> None:
    """A recording may have kept the whole of its steps and no stage."""
    bare = dataclasses.replace(step_times(), stages=(), costs=())
    figure = roofline_figure([bare], calibration(), "float32", (), LIGHT, 300)
    assert [len(trace.x) for trace in figure.data] == [2, 2, 0]
