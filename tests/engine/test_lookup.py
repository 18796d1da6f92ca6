"""Looking back gives what the step saw: bit for bit if it computed one row, within rounding otherwise."""

from __future__ import annotations

import pytest
import torch

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.lookup import attention_rows, kv_at, logits_of, pattern_row, pattern_rows
from miniinfer.errors import BadInputError
from tests.engine.helpers import GREEDY, PROMPT, PROMPTS, SMALL, run_all, tiny_engine


class Keeper:
    """Keeps q, k, v and the pattern of every layer, and the final-norm vectors, of each step."""

    def __init__(self) -> None:
        self.steps: list[dict] = []

    def __call__(self, stage, state) -> None:
        if stage.name == "schedule":
            self.steps.append({"scheduled": state.scheduled, "q": [], "k": [], "v": [], "patterns": []})
        step = self.steps[-1]
        if stage.name == "attn_pattern":
            for name in ("q", "k", "v"):
                step[name].append(getattr(state, name))
            step["patterns"].append([pattern_rows(state, s) for s in range(len(state.scheduled))])
            step["newest"] = [pattern_row(state, s) for s in range(len(state.scheduled))]
        if stage.name == "commit":
            step["final"], step["logits"] = state.final_norm_out, state.raw_logits


@pytest.fixture
def kept():
    engine, keeper = tiny_engine(SMALL), Keeper()
    seq = engine.add_request(PROMPT, SamplingParams(temperature=0, max_new_tokens=12))
    while engine.step(keeper):
        pass
    return engine, seq, keeper.steps


def test_single_rows_come_back_bit_for_bit(kept) -> None:
    engine, seq, steps = kept
    for step in steps[1:]:
        [entry] = step["scheduled"]
        for layer in range(3):
            rows = attention_rows(engine, seq, layer, step["q"][layer], entry.start)
            assert rows.shape == (10, 1, entry.stop)
            assert torch.equal(rows, step["patterns"][layer][0])
            keys, values = kv_at(engine, seq, layer, entry.start, entry.stop)
            assert torch.equal(keys, step["k"][layer].transpose(0, 1))
            assert torch.equal(values, step["v"][layer].transpose(0, 1))
        assert torch.equal(step["newest"][0], step["patterns"][2][0][:, -1])
        assert torch.equal(logits_of(engine, step["final"]), step["logits"])


def test_a_prompt_comes_back(kept) -> None:
    engine, seq, steps = kept
    for layer in range(3):
        whole = attention_rows(engine, seq, layer, steps[0]["q"][layer], 0)
        assert torch.equal(whole, steps[0]["patterns"][layer][0])
        for row in range(len(PROMPT)):
            one = attention_rows(engine, seq, layer, steps[0]["q"][layer][row : row + 1], row)[:, 0]
            torch.testing.assert_close(one, whole[:, row, : row + 1], atol=1e-6, rtol=0)
        assert not whole.triu(1).any()
    assert torch.equal(logits_of(engine, steps[0]["final"][-1:]), steps[0]["logits"])


def test_rows_of_many_steps_at_once(kept) -> None:
    engine, seq, steps = kept
    start, stop = len(PROMPT), seq.num_computed_tokens
    q = torch.cat([step["q"][1] for step in steps[1:]])
    rows = attention_rows(engine, seq, 1, q, start)
    assert rows.shape == (10, stop - start, stop)
    for n, step in enumerate(steps[1:]):
        torch.testing.assert_close(rows[:, n, : start + n + 1], step["patterns"][1][0][:, 0], atol=1e-6, rtol=0)


def test_sequences_of_a_batch_are_told_apart() -> None:
    engine, keeper = tiny_engine(EngineConfig(block_size=4, max_num_batched_tokens=9)), Keeper()
    for prompt in PROMPTS:
        engine.add_request(prompt, GREEDY)
    while engine.step(keeper):
        pass
    for step in keeper.steps:
        row = 0
        for s, (seq, n, start) in enumerate(step["scheduled"]):
            seen = step["patterns"][2][s]
            assert seen.shape == (10, n, start + n)
            looked_up = attention_rows(engine, seq, 2, step["q"][2][row : row + n], start)
            torch.testing.assert_close(looked_up, seen, atol=1e-5, rtol=0)
            assert torch.equal(step["newest"][s], seen[:, -1])
            row += n


def test_what_is_not_in_the_cache_is_refused(kept) -> None:
    engine, seq, steps = kept
    with pytest.raises(BadInputError, match="not in the cache; it holds 18"):
        attention_rows(engine, seq, 0, steps[1]["q"][0], 18)
    with pytest.raises(BadInputError, match="not in the cache"):
        kv_at(engine, seq, 0, 3, 3)
    engine.release(seq)
    with pytest.raises(BadInputError, match="it holds 0"):
        kv_at(engine, seq, 0, 0, 1)


def test_there_is_no_such_sequence_in_the_step() -> None:
    engine = tiny_engine()
    engine.add_request(PROMPT, GREEDY)
    with pytest.raises(BadInputError, match="no number 1"):
        pattern_row(engine.step(), 1)
    run_all(engine)
