"""Law 2 (places are found when they are written) and law 9 (a step counts as a whole or not at all)."""

from __future__ import annotations

import pytest
import torch

from miniinfer.config import SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.state import StepState
from tests.engine.helpers import GREEDY, PROMPTS, cached, run_all, shared_tiny, tiny_engine
from tests.engine.tiny import TINY

NUM_STAGES = 3 + 11 * TINY.num_layers + 11
EDITED = ("resid_pre", "resid_mid", "resid_post", "q", "k", "v", "z", "mlp_hidden", "attn_norm_out", "mlp_norm_out")


def edit(state: StepState) -> None:
    """Change what the rest of the step computes, and with it the keys and values of all later layers."""
    for name in EDITED:
        value = getattr(state, name)
        if value.numel():
            setattr(state, name, value * 1.5)


def parked(place: int, decoded: int, prompt: list[int], chunk: int | None) -> tuple[Engine, StepState]:
    """An engine whose one sequence has taken `decoded` steps and stands inside the next, before stage `place`."""
    engine = tiny_engine()
    engine.add_request(prompt, SamplingParams(temperature=0, max_new_tokens=30), prefill_chunk=chunk)
    for _ in range(decoded):
        engine.step()
    state = engine.begin_step()
    return engine, engine.advance(state, until=place)


def finish(engine: Engine, state: StepState) -> tuple[torch.Tensor, torch.Tensor]:
    """Take the step to its end; the rows it ended with, and those of the next step of the same sequence."""
    engine.advance(state)
    seq = state.scheduled[0].seq
    return state.final_norm_out, engine.step(only=seq).final_norm_out


# A tail block half full; a step that needs a new block; a chunk over three blocks.
CASES = {"tail": (3, PROMPTS[1], None), "new block": (4, PROMPTS[1], None), "chunk": (1, PROMPTS[4], 6)}


@pytest.mark.parametrize("order", ["in turn", "branch leads in turn", "trunk first", "branch first", "both, then next"])
@pytest.mark.parametrize("case", CASES)
def test_a_branch_made_inside_a_step_leaves_its_trunk_alone(case: str, order: str) -> None:
    decoded, prompt, chunk = CASES[case]
    for place in range(2, NUM_STAGES):
        alone, state = parked(place, decoded, prompt, chunk)
        expected_trunk = finish(alone, state)
        edited_alone, state = parked(place, decoded, prompt, chunk)
        edit(state)
        expected_branch = finish(edited_alone, state)

        engine, trunk = parked(place, decoded, prompt, chunk)
        branch = engine.fork_state(trunk)
        edit(branch)
        if "in turn" in order:
            pair = (branch, trunk) if order.startswith("branch") else (trunk, branch)
            for until in range(place + 1, NUM_STAGES + 1):
                for state in pair:
                    engine.advance(state, until=until)
                    engine.check()
            trunk_rows = trunk.final_norm_out, engine.step(only=trunk.scheduled[0].seq).final_norm_out
            branch_rows = branch.final_norm_out, engine.step(only=branch.scheduled[0].seq).final_norm_out
        elif order == "trunk first":
            trunk_rows, branch_rows = finish(engine, trunk), finish(engine, branch)
        elif order == "branch first":
            branch_rows, trunk_rows = finish(engine, branch), finish(engine, trunk)
        else:
            engine.advance(branch)
            engine.advance(trunk)
            trunk_next = engine.step(only=trunk.scheduled[0].seq).final_norm_out
            branch_next = engine.step(only=branch.scheduled[0].seq).final_norm_out
            trunk_rows, branch_rows = (trunk.final_norm_out, trunk_next), (branch.final_norm_out, branch_next)
        engine.check()
        where = f"before stage {place}"
        assert all(map(torch.equal, trunk_rows, expected_trunk)), f"the trunk is wrong, forked {where}"
        assert all(map(torch.equal, branch_rows, expected_branch)), f"the branch is wrong, forked {where}"


def test_rewinding_to_any_stage_gives_the_same_bits_again() -> None:
    engine, state = parked(2, 3, PROMPTS[1], None)
    copies = []
    while state.pc < NUM_STAGES - 1:
        copies.append(engine.fork_state(state))
        engine.advance(state, until=state.pc + 1)
    engine.advance(state)
    for copy in copies:
        engine.advance(copy)
        assert torch.equal(copy.final_norm_out, state.final_norm_out)
        assert copy.token_ids == state.token_ids
        engine.check()
    for seq in list(engine.sequences.values()):
        engine.release(seq)
    assert engine.pool.num_used == 0


def test_a_fork_of_the_sequence_during_its_parked_step() -> None:
    """The branch is made by Engine.fork and runs ahead while its trunk stands between two layers."""
    for place in range(2, NUM_STAGES):
        alone, state = parked(place, 3, PROMPTS[1], None)
        expected = finish(alone, state)
        engine, trunk = parked(place, 3, PROMPTS[1], None)
        seq = trunk.scheduled[0].seq
        for length in (2, 5, 7):
            branch = engine.fork(seq, length, force=50)
            engine.step(only=branch)
            engine.step(only=branch)
            engine.check()
        assert all(map(torch.equal, finish(engine, trunk), expected)), f"forked before stage {place}"


class Interruption(BaseException):
    """Not an Exception: even what nobody expects must leave everything whole."""


def picture(engine: Engine):
    """All that a step may change, but for the storage's spare room."""
    seqs = [
        (s.seq_id, list(s.token_ids), s.num_computed_tokens, list(s.block_table), s.status, s.finish_reason, s.error)
        for s in engine.sequences.values()
    ]
    queues = [s.seq_id for s in engine.scheduler.running], [s.seq_id for s in engine.scheduler.waiting]
    used = {block: count for block, count in enumerate(engine.pool.ref_counts) if count}
    return seqs, queues, used, engine.pool.num_used


def busy_engine() -> Engine:
    """Two that decode, a prompt half way through its chunks, and one that waits."""
    engine = tiny_engine()
    params = SamplingParams(seed=5, max_new_tokens=6)
    engine.add_request(PROMPTS[0], params)
    engine.add_request(PROMPTS[4], GREEDY, prefill_chunk=3)
    engine.add_request(PROMPTS[3], params)
    engine.step()
    engine.step()
    engine.add_request(PROMPTS[2], params)
    return engine


@pytest.mark.parametrize("place", range(NUM_STAGES))
def test_an_interrupted_step_leaves_no_trace(place: int) -> None:
    undisturbed = busy_engine()
    run_all(undisturbed)
    engine = busy_engine()
    before = picture(engine)
    contents = {seq: cached(engine, seq) for seq in engine.sequences.values()}

    def interrupt(stage, state) -> None:
        if state.pc == place + 1:
            raise Interruption

    with pytest.raises(Interruption):
        engine.step(interrupt)
    engine.check()
    if place < NUM_STAGES - 1:
        assert picture(engine) == before
        assert all(torch.equal(cached(engine, seq), kept) for seq, kept in contents.items())
    else:
        assert picture(engine) != before, "commit had run, so the step counts"
    run_all(engine)
    for name, seq in engine.sequences.items():
        assert seq.token_ids == undisturbed.sequences[name].token_ids
        assert seq.finish_reason == undisturbed.sequences[name].finish_reason


def test_an_interrupted_step_of_a_branch_keeps_both_pasts() -> None:
    """The step had copied a shared block when it was interrupted: what both sequences see is unchanged."""
    engine = tiny_engine()
    trunk = engine.add_request(PROMPTS[1], GREEDY)
    engine.step()
    engine.step()
    branch = engine.fork(trunk, 6, force=9)
    pasts = [cached(engine, seq) for seq in (trunk, branch)]

    def interrupt(stage, state) -> None:
        if stage.name == "attn_mix" and stage.layer == 1:
            raise Interruption

    for _ in range(3):
        with pytest.raises(Interruption):
            engine.step(interrupt)
        engine.check()
        assert all(torch.equal(cached(engine, s), past) for s, past in zip((trunk, branch), pasts, strict=True))
    run_all(engine)
    alone = tiny_engine()
    other = alone.add_request(PROMPTS[1], GREEDY)
    run_all(alone)
    assert trunk.token_ids == other.token_ids


def test_a_stage_that_fails_is_passed_on_and_undone() -> None:
    engine = busy_engine()
    before = picture(engine)
    engine.weights = shared_tiny().weights
    real = engine.rope.at
    engine.rope.at = lambda positions: 1 / 0
    with pytest.raises(ZeroDivisionError):
        engine.step()
    assert picture(engine) == before
    engine.rope.at = real
    run_all(engine)


def test_a_parked_step_can_be_abandoned() -> None:
    engine = busy_engine()
    before = picture(engine)
    state = engine.advance(engine.begin_step(), until=20)
    assert picture(engine) != before
    engine.abandon(state)
    assert picture(engine) == before
    with pytest.raises(Exception, match="over"):
        engine.advance(state)
    run_all(engine)
