"""Going back and branching: shared blocks, forced tokens, coins that stay comparable."""

from __future__ import annotations

import pytest
import torch

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.sampler import coin
from miniinfer.engine.sequence import Sequence
from miniinfer.errors import BadInputError, OutOfBlocksError
from tests.engine.helpers import (
    GREEDY,
    PROMPT,
    SMALL,
    cached,
    logits_by_seq,
    run_all,
    same,
    shared_tiny,
    solo,
    tiny_engine,
)

SAMPLED = SamplingParams(temperature=1.5, top_p=1, seed=6, max_new_tokens=14)


def finished_run(params: SamplingParams = SAMPLED) -> tuple[Engine, Sequence, list[torch.Tensor]]:
    engine = tiny_engine()
    seq = engine.add_request(PROMPT, params)
    return engine, seq, logits_by_seq(run_all(engine))[seq.seq_id]


def test_a_rewound_run_repeats_itself_bit_for_bit() -> None:
    engine, trunk, logits = finished_run()
    past = cached(engine, trunk)
    for length in range(len(PROMPT) + 1, trunk.num_tokens):
        branch = engine.fork(trunk, length)
        done = length - len(PROMPT)
        assert branch.output_ids == trunk.output_ids[:done]
        found = logits_by_seq(run_all(engine))[branch.seq_id]
        assert branch.token_ids == trunk.token_ids
        assert same(found, logits[done:])
        assert torch.equal(cached(engine, branch), past)
        assert torch.equal(cached(engine, trunk), past)
    for seq in list(engine.sequences.values()):
        engine.release(seq)
        engine.check()
    assert engine.pool.num_used == 0


def test_a_fork_shares_whole_blocks_and_copies_the_one_it_writes() -> None:
    engine, trunk, _ = finished_run()
    used = engine.pool.num_used
    branch = engine.fork(trunk, 11, force=40)
    assert branch.block_table == trunk.block_table[:3]
    assert engine.pool.num_used == used, "a fork by itself costs no block"
    assert branch.num_computed_tokens == 11
    engine.step()
    assert branch.block_table[:2] == trunk.block_table[:2]
    assert branch.block_table[2] != trunk.block_table[2]
    assert engine.pool.num_used == used + 1
    assert [engine.pool.ref_counts[block] for block in branch.block_table] == [2, 2, 1]
    at_a_border = engine.fork(trunk, 12, force=40)
    engine.step(only=at_a_border)
    assert at_a_border.block_table[:3] == trunk.block_table[:3]
    assert len(at_a_border.block_table) == 4


def test_a_forced_token_takes_its_place_and_its_coin() -> None:
    engine, trunk, _ = finished_run()
    branch = engine.fork(trunk, len(PROMPT) + 3, force=50)
    assert branch.forced == {3: 50}
    states = run_all(engine)
    assert branch.output_ids[:4] == [*trunk.output_ids[:3], 50]
    assert [state.coins[0] for state in states] == [coin(6, n) for n in range(4, 14)]
    _, [expected] = solo([*PROMPT, *branch.output_ids[:4]], SamplingParams(temperature=0, max_new_tokens=1))
    torch.testing.assert_close(states[0].raw_logits[0], expected, atol=1e-3, rtol=0)
    again = engine.fork(branch, len(PROMPT) + 6, force=51)
    assert again.forced == {3: 50, 6: 51}
    assert engine.fork(branch, len(PROMPT) + 2).forced == {}


def test_a_fork_inside_the_prompt_has_a_shorter_prompt() -> None:
    engine, trunk, _ = finished_run(GREEDY)
    branch = engine.fork(trunk, 4, force=9)
    assert (branch.prompt_ids, branch.output_ids, branch.forced) == (PROMPT[:4], [9], {0: 9})
    run_all(engine)
    alone = tiny_engine()
    expected = alone.add_request([*PROMPT[:4], 9], SamplingParams(temperature=0, max_new_tokens=5))
    run_all(alone)
    assert branch.token_ids == expected.token_ids
    plain = engine.fork(trunk, 4)
    assert (plain.num_computed_tokens, plain.in_prefill) == (3, True)
    run_all(engine)
    assert plain.output_ids == solo(PROMPT[:4])[0]


def test_a_fork_with_other_settings() -> None:
    engine, trunk, logits = finished_run(GREEDY)
    branch = engine.fork(trunk, len(PROMPT), params=SAMPLED)
    found = logits_by_seq(run_all(engine))[branch.seq_id]
    assert branch.output_ids == finished_run(SAMPLED)[1].output_ids
    torch.testing.assert_close(found[0], logits[0], atol=1e-3, rtol=0)
    assert trunk.params == GREEDY


@pytest.mark.parametrize("place", range(1, 8))
def test_a_fork_of_a_running_sequence_leaves_it_alone(place: int) -> None:
    engine = tiny_engine()
    trunk = engine.add_request(PROMPT, GREEDY, prefill_chunk=3)
    for _ in range(place):
        engine.step()
    for length in range(1, trunk.num_tokens + 1):
        branch = engine.fork(trunk, length, force=length)
        assert branch.num_computed_tokens <= trunk.num_computed_tokens
    run_all(engine)
    assert trunk.output_ids == solo(PROMPT)[0]
    for seq in list(engine.sequences.values()):
        assert seq.finish_reason == "length"
        engine.release(seq)
    assert engine.pool.num_used == 0


def test_trunk_and_branches_in_one_step_equal_each_alone() -> None:
    engine = tiny_engine()
    trunk = engine.add_request(PROMPT, SAMPLED)
    for _ in range(4):
        engine.step()
    branches = [engine.fork(trunk, length, force=30 + length) for length in (8, 9, 10)]
    run_all(engine)
    assert trunk.token_ids == finished_run()[1].token_ids
    for branch in branches:
        alone, other, _ = finished_run()
        expected = alone.fork(other, max(branch.forced) + len(PROMPT), force=next(iter(branch.forced.values())))
        run_all(alone)
        assert branch.token_ids == expected.token_ids


def test_a_fork_after_release_computes_its_past_anew() -> None:
    engine, trunk, _ = finished_run()
    engine.release(trunk)
    branch = engine.fork(trunk, 12)
    assert (branch.num_computed_tokens, branch.block_table) == (0, [])
    run_all(engine)
    assert branch.token_ids == trunk.token_ids


def test_a_fork_that_ends_at_once() -> None:
    output_ids = solo(PROMPT)[0]
    engine = Engine(shared_tiny(), EngineConfig(block_size=4, context_length=len(PROMPT) + 3))
    params = SamplingParams(temperature=0, max_new_tokens=9, stop_ids=(66,))
    trunk = engine.add_request(PROMPT, params)
    run_all(engine)
    assert (trunk.finish_reason, trunk.output_ids) == ("context", output_ids[:4])
    stopped = engine.fork(trunk, len(PROMPT) + 1, force=66)
    assert (stopped.finish_reason, stopped.output_ids) == ("stop", [output_ids[0], 66])
    full = engine.fork(trunk, len(PROMPT) + 3, force=1)
    assert (full.finish_reason, full.num_output_tokens) == ("context", 4)
    fewer = SamplingParams(temperature=0, max_new_tokens=2)
    assert engine.fork(trunk, len(PROMPT) + 2, params=fewer).finish_reason == "length"
    assert engine.step() is None
    engine.check()


def test_refused_forks() -> None:
    engine, trunk, _ = finished_run(GREEDY)
    for length in (0, -1, trunk.num_tokens + 1):
        with pytest.raises(BadInputError, match="keeps 1 to 13 of its tokens"):
            engine.fork(trunk, length)
    with pytest.raises(BadInputError, match="not in the vocabulary"):
        engine.fork(trunk, 3, force=67)
    with pytest.raises(BadInputError, match="already"):
        engine.fork(trunk, 3, seq_id=trunk.seq_id)
    with pytest.raises(BadInputError, match="another engine"):
        tiny_engine().fork(trunk, 3)
    engine.check()
    assert list(engine.sequences) == [trunk.seq_id]


def test_a_copy_that_finds_no_block_changes_nothing() -> None:
    """Copy-on-write in the middle of a parked step, in a pool that somebody else has filled meanwhile."""
    engine = tiny_engine(EngineConfig(block_size=4, max_blocks=3))
    trunk = engine.add_request(PROMPT, GREEDY)
    engine.step()
    state = engine.advance(engine.begin_step(), until=3)
    branch = engine.fork(trunk, 6, force=1)
    thief = engine.add_request([1, 2, 3], GREEDY)
    engine.step(only=thief)
    with pytest.raises(OutOfBlocksError):
        engine.advance(state)
    engine.check()
    assert trunk.output_ids == solo(PROMPT)[0][:1]
    engine.release(thief)
    engine.release(branch)
    run_all(engine)
    assert trunk.output_ids == solo(PROMPT)[0]


def test_the_pool_may_grow_while_a_step_is_parked() -> None:
    alone = tiny_engine()
    expected = alone.add_request(PROMPT, GREEDY)
    logits = logits_by_seq(run_all(alone))[expected.seq_id]
    for place in range(2, len(alone.program), 3):
        engine = tiny_engine(SMALL)
        seq = engine.add_request(PROMPT, GREEDY)
        engine.step()
        state = engine.advance(engine.begin_step(), until=place)
        before = engine.reserved_bytes()
        engine.step(only=engine.add_request(range(40), GREEDY))
        assert engine.reserved_bytes() > before
        engine.advance(state)
        assert torch.equal(state.raw_logits[0], logits[1])
        run_all(engine)
        assert seq.output_ids == expected.output_ids


@pytest.mark.parametrize("computed", [0, 1, 4, 6, 7, 99])
def test_a_fork_may_leave_computed_positions_to_be_computed_anew(computed: int) -> None:
    """The same step again, with the same rows: bit-equal, in blocks of its own from `computed` on."""
    engine = tiny_engine()
    trunk = engine.add_request(PROMPT, SAMPLED)
    state = engine.step()
    past, used = cached(engine, trunk), engine.pool.num_used
    branch = engine.fork(trunk, len(PROMPT), computed=computed)
    left = min(computed, len(PROMPT) - 1)
    assert branch.num_computed_tokens == left
    assert branch.block_table == trunk.block_table[: -(-left // 4)]
    again = engine.step(only=branch)
    engine.check()
    if computed == 0:
        assert torch.equal(again.raw_logits, state.raw_logits)
        assert torch.equal(cached(engine, branch), past)
    torch.testing.assert_close(again.raw_logits, state.raw_logits)
    assert again.token_ids == state.token_ids
    assert torch.equal(cached(engine, trunk), past)
    engine.release(branch)
    assert engine.pool.num_used == used
