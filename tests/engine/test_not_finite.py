"""A sequence of NaN ends by itself: nobody beside it, and nobody who gets its blocks later, notices."""

from __future__ import annotations

import pytest
import torch

from miniinfer.config import SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.sequence import Sequence
from tests.engine.helpers import run_all, solo, tiny_engine

PARAMS = SamplingParams(temperature=0, max_new_tokens=8)


def step_with_nan(engine: Engine, victim: Sequence) -> None:
    """One step in which the rows of the victim are NaN from the first layer on."""

    def poison(stage, state) -> None:
        if stage.name == "embed":
            first_row = 0
            for seq, num_tokens, _ in state.scheduled:
                if seq is victim:
                    rows = torch.arange(first_row, first_row + num_tokens)
                    state.resid_pre = state.resid_pre.index_fill(0, rows, float("nan"))
                first_row += num_tokens

    state = engine.step(poison)
    [r] = state.errors
    assert state.token_ids[r] == -1
    assert not state.probs[r].any()
    engine.check()


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("when", [0, 3])
def test_it_ends_only_its_own_sequence(number: int, when: int) -> None:
    engine = tiny_engine()
    seqs = [engine.add_request(range(n, n + length), PARAMS) for n, length in ((0, 3), (20, 9), (40, 14))]
    for _ in range(when):
        engine.step()
    step_with_nan(engine, seqs[number])
    run_all(engine)
    for seq in seqs:
        expected = solo(seq.prompt_ids, PARAMS)[0]
        if seq is seqs[number]:
            assert (seq.finish_reason, seq.output_ids) == ("abort", expected[:when])
            assert "logits are not usable" in seq.error
        else:
            assert (seq.finish_reason, seq.output_ids, seq.error) == ("length", expected, None)


def test_its_blocks_are_clean_for_the_next_owner() -> None:
    engine = tiny_engine()
    victim = engine.add_request(range(14), PARAMS)
    step_with_nan(engine, victim)
    engine.release(victim)
    seqs = [engine.add_request(range(length), PARAMS) for length in (1, 2, 13)]
    run_all(engine)
    for seq in seqs:
        assert seq.output_ids == solo(seq.prompt_ids, PARAMS)[0]


def test_a_branch_from_before_it_is_clean_too() -> None:
    """The shared block holds NaN behind the branch's own positions; its copy does not."""
    engine = tiny_engine()
    trunk = engine.add_request(range(9), PARAMS)
    for _ in range(3):
        engine.step()
    step_with_nan(engine, trunk)  # position 11
    branch, longer = engine.fork(trunk, 10), engine.add_request(range(30, 50), PARAMS)
    assert branch.block_table == trunk.block_table
    run_all(engine)
    for seq in (branch, longer):
        assert seq.output_ids == solo(seq.prompt_ids, PARAMS)[0]
