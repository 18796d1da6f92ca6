"""A run that was interrupted and came back is the run that was never interrupted: tokens, draws, records, the rest."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.errors import BadInputError, OutOfBlocksError
from miniinfer.trace.budget import TraceBudget
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.resume import KnownStep, resume_run
from miniinfer.trace.run import ChangeParams, ForceToken
from tests.engine.tiny import tiny_model
from tests.trace.live import PROMPT, live_run, token

HOT = SamplingParams(temperature=1.2, top_p=0.9, max_new_tokens=12, seed=3)
SETTINGS = {
    "another seed": dataclasses.replace(HOT, seed=2**64 - 1),
    "penalties": dataclasses.replace(
        HOT, repetition_penalty=1.4, presence_penalty=0.7, frequency_penalty=0.5, min_p=0.01, top_k=40
    ),
    "greedy": dataclasses.replace(HOT, temperature=0),
}
MODEL = tiny_model()


def engine(**config):
    return Engine(MODEL, EngineConfig(block_size=4, pool_chunk_blocks=4, **{"max_num_batched_tokens": 512} | config))


def known(run, count=None):
    return [
        KnownStep(
            m.num_scheduled, m.step_ms, m.stage_ms, m.token_id, m.forced, m.logprob, m.coin, run.params_of(m.step),
            m.recording_ms,
        )
        for m in run.steps[:count]
    ]


def info_at(run):
    return dataclasses.replace(run.info, default_head=None)


def back(run, count=None, **kwargs):
    """The run as it stood after `count` steps, in an engine of its own."""
    prompt = run.seq.token_ids[: run.info.num_prompt_tokens]
    kwargs = {"engine": engine(), "budget": TraceBudget()} | kwargs
    return resume_run(
        kwargs["engine"], info_at(run), prompt, known(run, count), token, kwargs["budget"], kwargs.get("trunk")
    )


def to_the_end(run):
    while run.step():
        pass
    return run


def facts(run):
    return [
        (
            m.step, m.phase, m.num_scheduled, m.context_len, m.token_id, m.coin, m.forced, m.kv_used_bytes,
            m.kv_allocated_bytes, m.kv_bytes_read, m.weight_bytes_read,
        )
        for m in run.steps
    ]  # fmt: skip


@pytest.mark.parametrize("chunk", [None, 1])
@pytest.mark.parametrize("name", SETTINGS)
def test_from_every_step_on_the_tokens_are_those_of_the_uninterrupted_run(name, chunk):
    whole = to_the_end(live_run(SETTINGS[name], chunk=chunk, model=MODEL))
    for count in range(1, len(whole.steps) + 1):
        run = back(whole, count)
        times = [[(m.step_ms, m.stage_ms, m.recording_ms) for m in each.steps[:count]] for each in (run, whole)]
        assert times[0] == times[1]
        assert run.info.resumed == count
        to_the_end(run)
        assert facts(run) == facts(whole), count
        assert [t.token_id for t in run.tokens] == [t.token_id for t in whole.tokens]
        assert run.finish_reason == whole.finish_reason
        assert [m.logprob for m in run.steps] == pytest.approx([m.logprob for m in whole.steps], abs=1e-4)
        run.engine.check()


@pytest.mark.parametrize("chunk", [None, 1])
def test_what_can_be_looked_at_is_what_the_first_run_showed(chunk):
    whole = to_the_end(live_run(HOT, chunk=chunk, model=MODEL))
    run = back(whole)
    length = whole.steps[-1].context_len
    assert run.info.default_head == whole.info.default_head
    for position in range(length):
        near = run.rows_at(position).astype(int) - whole.rows_at(position).astype(int)
        assert np.abs(near).max() <= 1, "one step of 8 bits"
        assert run.exact_row(1, 3, position) == pytest.approx(whole.exact_row(1, 3, position), abs=1e-5)
        assert run.next_at(position).raw_probs == pytest.approx(whole.next_at(position).raw_probs, abs=1e-5)
    for step in range(1, len(whole.steps) + 1):
        mine, theirs = run.pooled_maps(step), whole.pooled_maps(step)
        assert (mine is None) == (theirs is None)
        if mine is not None:
            assert mine.cell == theirs.cell
            assert np.abs(mine.maps.astype(int) - theirs.maps.astype(int)).max() <= 1
        mine, theirs = run.next_token(step), whole.next_token(step)
        assert (mine and (mine.token_id, mine.coin)) == (theirs and (theirs.token_id, theirs.coin))
    assert run.kv_norms(0) == pytest.approx(whole.kv_norms(0), rel=1e-4)
    assert run.token_probs(0)[1:] == pytest.approx(whole.token_probs(0)[1:], abs=1e-5)


def test_a_prefill_that_exceeds_the_budget_of_a_step_comes_in_parts():
    whole = to_the_end(live_run(HOT, prompt=[i % 60 for i in range(40)], model=MODEL))
    run = back(whole, 6, engine=engine(max_num_batched_tokens=7))
    assert run.seq.num_computed_tokens == 45
    assert len(run.steps) == 6
    assert run.pooled_maps(1).maps.shape == whole.pooled_maps(1).maps.shape
    assert facts(to_the_end(run))[6:] == facts(whole)[6:]


def test_branches_come_back_with_forced_tokens_and_settings_and_share_their_trunks_blocks_again():
    trunk = to_the_end(live_run(HOT, model=MODEL))
    forced = trunk.fork(ForceToken(5, 20), "r2", "forced")
    to_the_end(forced)
    changed = forced.fork(ChangeParams(8, SETTINGS["penalties"]), "r3", "changed")
    for _ in range(2):
        changed.step()
    there = engine()
    budget = TraceBudget()
    one = back(trunk, 9, engine=there, budget=budget)
    used = there.pool.num_used
    two = back(forced, engine=there, budget=budget, trunk=one)
    assert there.pool.num_used < used + len(two.seq.block_table), "the common positions stand in memory once"
    assert two.seq.block_table[:2] == one.seq.block_table[:2]
    three = back(changed, engine=there, budget=budget, trunk=two)
    there.check()
    assert two.steps[4].forced
    assert two.seq.forced == {4: 20}
    assert [three.params_of(s) for s in range(1, len(three.steps) + 1)] == [
        changed.params_of(s) for s in range(1, len(changed.steps) + 1)
    ]
    for mine, theirs in ((one, trunk), (two, forced), (three, to_the_end(changed))):
        assert facts(to_the_end(mine)) == facts(theirs)
    for run in (one, two, three):
        run.release()
    assert (there.pool.num_used, budget.used_bytes) == (0, 0)


def test_a_branch_whose_trunk_is_gone_or_is_another_computes_everything_itself():
    trunk = to_the_end(live_run(HOT, model=MODEL))
    branch = to_the_end(trunk.fork(ForceToken(3, 20), "r2", "b"))
    assert facts(back(branch)) == facts(branch)
    there = engine()
    other = LiveRun(
        there, there.add_request([9] * len(PROMPT), HOT, seq_id="r1"), trunk.info, token, TraceBudget()
    )
    to_the_end(other)
    run = back(branch, engine=there, trunk=other)
    assert not set(run.seq.block_table) & set(other.seq.block_table)
    assert facts(run) == facts(branch)


def test_a_run_of_no_new_tokens_and_one_in_the_middle_of_its_prompt_come_back():
    empty = to_the_end(live_run(dataclasses.replace(HOT, max_new_tokens=0), model=MODEL))
    assert back(empty).finish_reason == "length"
    whole = live_run(HOT, chunk=1, model=MODEL)
    whole.step()
    assert back(whole, 0).steps == []
    assert back(whole, 1).seq.num_computed_tokens == 1


def test_what_cannot_come_back_leaves_nothing_behind():
    whole = to_the_end(live_run(HOT, model=MODEL))
    small = engine(max_blocks=2)
    with pytest.raises(OutOfBlocksError):
        back(whole, engine=small)
    assert (small.pool.num_used, small.sequences) == (0, {})
    there = engine()
    steps = [dataclasses.replace(step, token_id=9999) for step in known(whole)]
    with pytest.raises(BadInputError, match="vocabulary"):
        resume_run(there, whole.info, PROMPT, steps, token, TraceBudget())
    assert there.sequences == {}
