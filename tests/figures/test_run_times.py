"""The times of a run's own steps: what is held against what, and that the parts add up."""

from __future__ import annotations

import dataclasses

import pytest

from miniinfer.figures.cost.run_times import (
    MOST_BARS,
    parts_of,
    prefill_and_decode,
    run_times,
    steps_time_figure,
    steps_window,
)
from miniinfer.figures.cost.tables import run_table, time_table
from miniinfer.figures.palette import LIGHT
from miniinfer.trace.records import StepMeta
from tests.trace.files.recorded import make_run


def steps(prefill: int = 1, decode: int = 4) -> list[StepMeta]:
    """Steps of 6.5 ms in three stages, and 1 ms of recording; the first ones are a prefill that chooses at its end."""
    made = make_run(decoded=prefill + decode - 1).steps
    return [
        dataclasses.replace(
            m, phase="prefill" if i < prefill else "decode", step_ms=6.5, recording_ms=1.0,
            token_id=m.token_id if i >= prefill - 1 else None,
        )
        for i, m in enumerate(made)
    ]


def test_time_to_first_token_counts_every_step_up_to_it() -> None:
    found = run_times(steps(prefill=3))
    assert found is not None
    assert (found.to_first, found.first_steps, found.per_output, found.decode_steps) == (19.5, 3, 6.5, 4)
    assert run_times(steps(prefill=3)[:2]) is None
    only = run_times(steps(prefill=1, decode=0))
    assert only is not None
    assert only.per_output is None


def test_the_step_at_the_cursor_is_held_against_the_other_phase() -> None:
    made = steps(prefill=3)
    numbers = [[[m.step for m in metas] for metas in prefill_and_decode(made, cursor)] for cursor in range(8)]
    assert numbers[0] == [[1, 2, 3], [7]]
    assert numbers[2] == [[2], [7]]
    assert numbers[5] == [[1, 2, 3], [5]]
    assert prefill_and_decode(made[:2], 2) == (made[1:2], [])


def test_parts_and_recording_add_up_to_the_whole() -> None:
    one, three = parts_of(steps()[:1]), parts_of(steps(prefill=3)[:3])
    assert (one.step_ms, one.gap_ms) == (7.5, 1.0)
    assert (three.step_ms, three.gap_ms, len(three.stages)) == (22.5, 3.0, 3)
    table = time_table((one, None), (), "recording").set_index("stage")
    assert list(table.columns) == ["part", "prefill ms", "of prefill"]
    assert table["prefill ms"].drop("step").sum() == table.loc["step", "prefill ms"] == 7.5
    assert table.loc["commit", "part"] == "bookkeeping"
    each = run_table(steps())
    parts = each[["attention ms", "mlp ms", "unembed ms", "sampling ms", "bookkeeping ms"]]
    assert (parts.sum(axis=1) == each["ms"]).all()


def test_steps_of_a_run_that_was_saved_before_recording_was_timed_have_none() -> None:
    old = [dataclasses.replace(m, recording_ms=None) for m in steps()]
    assert parts_of(old[:1]).gap_ms == 0
    assert steps_time_figure(old, 1, LIGHT, 200).data[-1].y == (0.0,) * 5


def test_a_prefill_beyond_the_scale_is_cut_and_says_so() -> None:
    made = steps()
    made[0] = dataclasses.replace(made[0], step_ms=800.0)
    figure = steps_time_figure(made, 3, LIGHT, 200)
    assert figure.layout.yaxis.range[1] == pytest.approx(7.5 * 1.35)
    assert [note.text for note in figure.layout.annotations] == ["cut: 801 ms"]
    (ring,) = figure.layout.shapes
    assert (ring.x0, ring.x1, ring.y1) == (2.5, 3.5, 7.5)
    assert not steps_time_figure(made, 0, LIGHT, 200).layout.shapes


def test_of_a_long_run_the_steps_around_the_cursor_are_shown() -> None:
    made = [dataclasses.replace(steps()[1], step=i + 1) for i in range(500)]
    for cursor, (first, last) in {0: (1, 200), 50: (1, 200), 250: (151, 350), 500: (301, 500)}.items():
        window = steps_window(made, cursor)
        assert (window[0].step, window[-1].step, len(window)) == (first, last, MOST_BARS)
        assert cursor == 0 or first <= cursor <= last
