"""A step in parts is the step; what others do between its parts is theirs; given up half way, it never was."""

import numpy as np
import pytest

from miniinfer.config import SamplingParams
from miniinfer.trace.parts import finished
from tests.trace.live import live_run

LONG = list(range(1, 31))
PARAMS = SamplingParams(temperature=1.2, max_new_tokens=6, seed=3)


def test_parts_with_other_steps_in_between_give_what_one_go_gives():
    alone, other_alone = (live_run(PARAMS, prompt=prompt) for prompt in (LONG, LONG[::-1]))
    for run in (alone, other_alone):
        while run.step():
            pass
    run, other = live_run(PARAMS, prompt=LONG), live_run(PARAMS, prompt=LONG[::-1])
    parts = run.step_in_parts()
    shares = [next(parts)]
    for share in parts:
        shares.append(share)
        assert run.steps == [], "nothing is committed before the end"
        other.step()
    assert len(shares) == 3, "one before each layer"
    assert shares == sorted(set(shares))
    for mine, theirs in ((run, alone), (other, other_alone)):
        while mine.step():
            pass
        assert mine.seq.token_ids == theirs.seq.token_ids
        np.testing.assert_array_equal(mine.logits_at(29), theirs.logits_at(29))
        np.testing.assert_array_equal(mine.records[0].sequences[0].q, theirs.records[0].sequences[0].q)


@pytest.mark.parametrize("parts_done", [1, 2, 3])
def test_given_up_between_two_parts_nothing_has_happened(parts_done):
    run = live_run(PARAMS, prompt=LONG)
    parts = run.step_in_parts()
    for _ in range(parts_done):
        next(parts)
    parts.close()
    run.engine.check()
    assert (run.steps, run.seq.num_computed_tokens, run.seq.num_tokens) == ([], 0, len(LONG))
    alone = live_run(PARAMS, prompt=LONG)
    for each in (run, alone):
        assert each.step()
    assert run.seq.token_ids == alone.seq.token_ids


def test_a_short_step_is_one_part():
    run = live_run(PARAMS, prompt=LONG[:3])
    assert list(run.step_in_parts()) == []
    assert len(run.steps) == 1
    assert finished(run.step_in_parts()) is True


def test_what_passes_between_two_parts_is_no_time_of_the_step():
    run, now = live_run(PARAMS, prompt=LONG), 0.0

    def mark():
        nonlocal now
        now += 0.001
        return now

    run._recorder._clock.mark = mark
    for _ in run.step_in_parts():
        now += 1000.0
    [step] = run.steps
    assert 0 < step.step_ms < 1000
    assert 0 < run.records[0].recording_ms < 1000
