"""One answer, however the work is cut: against the oracle, cached or not, in chunks, in company, watched or not."""

from __future__ import annotations

import itertools
from functools import partial

import pytest
import torch

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.groups import make_groups, one_group_each
from tests.engine.helpers import (
    GREEDY,
    PROMPT,
    PROMPTS,
    SMALL,
    logits_by_seq,
    run_all,
    same,
    shared_tiny,
    solo,
    tiny_engine,
)
from tests.engine.oracle import oracle_logits

ACROSS_SHAPES = 1e-3  # another shape may add in another order


def test_every_step_agrees_with_the_oracle() -> None:
    """KV-02: with a cache, positions go on where the prompt ended; the oracle computes everything again each time."""
    output_ids, logits = solo(PROMPT, SamplingParams(temperature=0, max_new_tokens=20))
    expected = oracle_logits(shared_tiny(), PROMPT + output_ids)[len(PROMPT) - 1 : -1]
    torch.testing.assert_close(torch.stack(logits).double(), expected, atol=2e-4, rtol=0)
    assert output_ids == expected.argmax(1).tolist()
    assert len(set(output_ids)) > 3, "a tiny model that repeats itself would hide mistakes"


def test_cached_equals_uncached() -> None:
    """Each token again as the last one of a prompt in a fresh engine."""
    output_ids, logits = solo(PROMPT)
    for n in range(len(output_ids)):
        _, [uncached] = solo(PROMPT + output_ids[:n], SamplingParams(temperature=0, max_new_tokens=1))
        torch.testing.assert_close(uncached, logits[n], atol=ACROSS_SHAPES, rtol=0)


@pytest.mark.parametrize("chunk", [1, 2, 3, 4, 5, 19, 20])
@pytest.mark.parametrize("by", ["prefill_chunk", "budget"])
def test_chunked_prefill_equals_one_pass(chunk: int, by: str) -> None:
    prompt = list(range(30, 50))
    expected_ids, expected = solo(prompt)
    budget = chunk if by == "budget" else 256
    engine = tiny_engine(EngineConfig(block_size=4, pool_chunk_blocks=3, max_num_batched_tokens=budget))
    seq = engine.add_request(prompt, GREEDY, prefill_chunk=chunk if by == "prefill_chunk" else None)
    states = run_all(engine)
    prefill = [state.scheduled[0].num_tokens for state in states if state.scheduled[0].start < len(prompt)]
    assert prefill == [min(chunk, len(prompt) - start) for start in range(0, len(prompt), chunk)]
    assert seq.output_ids == expected_ids
    for found, wanted in zip(logits_by_seq(states)[seq.seq_id], expected, strict=True):
        torch.testing.assert_close(found, wanted, atol=ACROSS_SHAPES, rtol=0)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_together_equals_alone_in_every_order(order: tuple[int, ...]) -> None:
    """KV-01: short rows beside long ones get their own positions and see nobody else's keys."""
    engine = tiny_engine()
    seqs = {i: engine.add_request(PROMPTS[i], SamplingParams(temperature=0, max_new_tokens=20)) for i in order}
    positions: dict[str, list[int]] = {}

    def note_positions(state) -> None:
        row = 0
        for seq, n, _ in state.scheduled:
            positions.setdefault(seq.seq_id, []).extend(state.positions[row : row + n].tolist())
            row += n

    logits = logits_by_seq(run_all(engine, note_positions))
    for i, seq in seqs.items():
        expected_ids, expected = solo(PROMPTS[i], SamplingParams(temperature=0, max_new_tokens=20))
        assert seq.output_ids == expected_ids
        assert positions[seq.seq_id] == list(range(len(PROMPTS[i]) + 19))
        for found, wanted in zip(logits[seq.seq_id], expected, strict=True):
            torch.testing.assert_close(found, wanted, atol=1e-4, rtol=0)


@pytest.mark.parametrize("budget", [3, 6, 9, 256])
def test_decode_mixed_with_chunks_equals_alone(budget: int) -> None:
    """New prompts arrive while others decode; a small budget cuts them into chunks, some of one row."""
    engine = tiny_engine(EngineConfig(block_size=4, pool_chunk_blocks=3, max_num_batched_tokens=budget))
    params = [SamplingParams(seed=i, temperature=0.7 * (i % 2), max_new_tokens=9) for i in range(len(PROMPTS))]
    seqs, states = [], []
    for prompt, each in zip(PROMPTS, params, strict=True):
        seqs.append(engine.add_request(prompt, each))
        states += [engine.step(), engine.step()]
    states += run_all(engine)
    kinds = {(len(s.scheduled) > 1, any(e.num_tokens > 1 for e in s.scheduled)) for s in states}
    assert (True, True) in kinds, "no step mixed decode with a chunk"
    logits = logits_by_seq(states)
    for seq, prompt, each in zip(seqs, PROMPTS, params, strict=True):
        expected_ids, expected = solo(prompt, each)
        assert seq.output_ids == expected_ids
        for found, wanted in zip(logits[seq.seq_id], expected, strict=True):
            torch.testing.assert_close(found, wanted, atol=ACROSS_SHAPES, rtol=0)


@pytest.mark.parametrize("cost", [0, 8, 256])
def test_grouped_attention_equals_one_group_per_sequence(cost: int) -> None:
    """Whether neighbours of unlike length share a group or not: the prompts are short, so the cost of a group is what
    decides here."""
    outputs = []
    for grouping in (partial(make_groups, group_cost=cost), one_group_each):
        engine = Engine(shared_tiny(), SMALL, make_groups=grouping)
        seqs = [engine.add_request(prompt, GREEDY) for prompt in PROMPTS]
        logits = logits_by_seq(run_all(engine))
        outputs.append([(seq.output_ids, torch.stack(logits[seq.seq_id])) for seq in seqs])
    for (ids_a, logits_a), (ids_b, logits_b) in zip(*outputs, strict=True):
        assert ids_a == ids_b
        torch.testing.assert_close(logits_a, logits_b, atol=1e-4, rtol=0)


@pytest.mark.parametrize("block_size", [1, 3, 4, 7, 16, 64])
def test_the_block_size_changes_nothing(block_size: int) -> None:
    engine = tiny_engine(EngineConfig(block_size=block_size, pool_chunk_blocks=2))
    seq = engine.add_request(PROMPT, GREEDY)
    logits = logits_by_seq(run_all(engine))[seq.seq_id]
    expected_ids, expected = solo(PROMPT)
    assert seq.output_ids == expected_ids
    torch.testing.assert_close(torch.stack(logits), torch.stack(expected), atol=1e-4, rtol=0)


def test_watching_changes_no_bit() -> None:
    def run(observe: bool):
        engine, seen = tiny_engine(), []
        seqs = [engine.add_request(prompt, SamplingParams(seed=4, max_new_tokens=5)) for prompt in PROMPTS[:3]]
        states = []
        while state := engine.step((lambda stage, _: seen.append(stage.name)) if observe else None):
            states.append(state)
        return [seq.token_ids for seq in seqs], logits_by_seq(states), len(seen), engine.kv_cache.data

    ids_on, logits_on, num_seen, cache_on = run(True)
    ids_off, logits_off, _, cache_off = run(False)
    assert num_seen == 5 * len(tiny_engine().program)
    assert ids_on == ids_off
    assert all(same(logits_on[key], logits_off[key]) for key in logits_on)
    assert torch.equal(cache_on, cache_off)
