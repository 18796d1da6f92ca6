"""A request of a batch against itself alone."""

from __future__ import annotations

import pytest
import torch

from miniinfer.errors import BadInputError
from miniinfer.trace.batch.alone import against_alone
from tests.engine.tiny import tiny_model
from tests.trace.batch.runs import PROMPTS, batch_run, consistent, finished_run


@pytest.mark.parametrize("batching", ["continuous", "static"])
@pytest.mark.parametrize("paging", [True, False])
def test_batched_against_alone(batching: str, paging: bool) -> None:
    run = finished_run(batching=batching, paging=paging, max_seqs=3, token_budget=40)
    consistent(run.trace)
    for name in PROMPTS:
        found = against_alone(run, name)
        assert found.same
        assert found.first_difference is None
        assert found.largest_logit_difference < 1e-3
        assert found.smallest_margin > 0.01
        assert not found.could_differ
        assert len(found.alone_ids) == 6


def test_kept_vectors_give_the_very_logits_of_the_step_back() -> None:
    """Or the difference to a run alone would hold a rounding that the batch never had."""
    from miniinfer.trace.batch.alone import _logits

    run, seen = batch_run(), []
    real = run.engine.advance

    def advance(state, **options):
        real(state, **options)
        if state.pc == len(run.engine.program):
            seen.append(state.raw_logits)
        return state

    run.engine.advance = advance  # type: ignore[method-assign]
    while run.step():
        pass
    for logits, record in zip(seen, (s for s in run.steps if s.rows), strict=True):
        assert torch.equal(_logits(run.engine, record), logits)


def test_a_difference_is_found() -> None:
    """Another model behind the run than the one that is asked alone: tokens differ, and where is said."""
    run = finished_run()
    run.model = tiny_model(seed=1)
    found = against_alone(run, "a")
    assert not found.same
    assert found.first_difference is not None
    assert found.batched_ids[found.first_difference] != found.alone_ids[found.first_difference]
    assert found.largest_logit_difference > 0.1


def test_nothing_to_compare_yet() -> None:
    with pytest.raises(BadInputError, match="'a' has no token yet"):
        against_alone(batch_run(), "a")
