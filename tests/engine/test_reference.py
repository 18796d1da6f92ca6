"""The real model against numbers from an independent implementation (tests/data), alone, in company and in chunks."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.lookup import attention_rows, logits_of, pattern_row
from miniinfer.engine.stage import Stage
from miniinfer.engine.state import StepState
from tests.engine.helpers import logits_by_seq

CASES = range(10)
GREEDY = SamplingParams(temperature=0, max_new_tokens=32)
MARGIN = 0.01  # below this another order of summation may choose otherwise


class LastPosition:
    """What the reference tells about the last position of a prompt: residual norms and chosen rows of attention."""

    def __init__(self, heads: list[str]) -> None:
        self.heads = {name: tuple(map(int, name.split("."))) for name in heads}
        self.norms: list[float] = []
        self.rows: dict[str, torch.Tensor] = {}

    def __call__(self, stage: Stage, state: StepState) -> None:
        if stage.name == "attn_norm":
            self.norms.append(state.resid_pre[-1].norm().item())
        elif stage.name == "final_norm":
            self.norms.append(state.final_norm_out[-1].norm().item())
        elif stage.name == "attn_pattern":
            for name, (layer, head) in self.heads.items():
                if layer == stage.layer:
                    self.rows[name] = pattern_row(state, 0)[head]


def check_logits(logits: torch.Tensor, case: dict[str, Any], tolerance: float = 2e-3) -> None:
    for token_id, value in case["last_logits_top20"]:
        assert logits[token_id].item() == pytest.approx(value, abs=tolerance)
    assert logits.logsumexp(0).item() == pytest.approx(case["logsumexp"], abs=tolerance)
    assert logits.mean().item() == pytest.approx(case["logits_mean"], abs=tolerance)


def check_greedy(output_ids: list[int], case: dict[str, Any]) -> None:
    for n, (token_id, margin) in enumerate(zip(case["greedy_ids"], case["greedy_margin"], strict=True)):
        if margin <= MARGIN:
            return
        assert output_ids[n] == token_id, f"output token {n}"
    assert len(output_ids) == len(case["greedy_ids"])


@pytest.fixture(scope="module")
def endless(model):
    """The reference was made without stop ids: it goes on after the end of a turn."""
    return dataclasses.replace(model, stop_ids=frozenset())


@pytest.mark.parametrize("number", CASES)
def test_one_prompt(number: int, model, endless, reference) -> None:
    case = reference["cases"][number]
    engine, seen = Engine(endless), LastPosition(list(case["attn_last_row"]))
    seq = engine.add_request(case["ids"], GREEDY)
    state = engine.step(seen)
    check_logits(state.raw_logits[0], case)
    assert seen.norms == pytest.approx(case["resid_norm_last"], rel=1e-3)
    for name, row in case["attn_last_row"].items():
        torch.testing.assert_close(seen.rows[name], torch.tensor(row), atol=1e-4, rtol=0)
    if number in (0, 4, 9):  # all ten go on in one engine below, which takes a third of the steps
        while engine.step():
            pass
        check_greedy(seq.output_ids, case)
    engine.check()


def test_all_prompts_in_one_engine(model, endless, reference) -> None:
    """They arrive one after another, with a small budget, so that chunks and decodes mix."""
    engine = Engine(endless, EngineConfig(max_num_batched_tokens=48))
    seqs, states = [], []
    for case in reference["cases"]:
        seqs.append(engine.add_request(case["ids"], GREEDY))
        states.append(engine.step())
    while (state := engine.step()) is not None:
        engine.check()
        states.append(state)
    assert sum(len({e.num_tokens for e in state.scheduled}) > 1 for state in states) > 5
    logits = logits_by_seq(states)
    for seq, case in zip(seqs, reference["cases"], strict=True):
        check_logits(logits[seq.seq_id][0], case)
        check_greedy(seq.output_ids, case)


def test_a_chat_ends_with_its_turn(model, reference) -> None:
    case = reference["cases"][2]
    assert case["kind"] == "chat"
    engine = Engine(model)
    seq = engine.add_request(case["ids"], GREEDY)
    while engine.step():
        pass
    ends = case["greedy_ids"].index(2) + 1
    assert (seq.output_ids, seq.finish_reason) == (case["greedy_ids"][:ends], "stop")


@pytest.mark.parametrize("chunk", [1, 7, 16])
def test_a_prompt_in_chunks(chunk: int, model, reference) -> None:
    case = reference["cases"][2]
    engine = Engine(model)
    seq = engine.add_request(case["ids"], SamplingParams(temperature=0, max_new_tokens=1), prefill_chunk=chunk)
    states = []
    while state := engine.step():
        states.append(state)
    assert len(states) == math.ceil(len(case["ids"]) / chunk)
    check_logits(states[-1].raw_logits[0], case)
    if chunk == 1:
        assert torch.equal(logits_of(engine, states[-1].final_norm_out), states[-1].raw_logits)
        rows = attention_rows(engine, seq, 29, states[-1].q, len(case["ids"]) - 1)[:, 0]
        assert torch.equal(rows, pattern_row(states[-1], 0))


def test_a_branch_of_a_sampled_run_repeats_it(model) -> None:
    """Bit for bit on the real model too: the same shapes, the same sums."""
    engine = Engine(model)
    trunk = engine.add_request([504, 3575, 282, 4649, 314], SamplingParams(temperature=0.9, seed=3, max_new_tokens=20))
    expected = []
    while state := engine.step():
        expected.append(state.raw_logits)
    branch = engine.fork(trunk, 14)
    found = []
    while state := engine.step():
        found.append(state.raw_logits)
    assert branch.token_ids == trunk.token_ids
    assert all(map(torch.equal, found, expected[-len(found) :]))
    engine.release(trunk)
    engine.release(branch)
    engine.check()
    assert engine.pool.num_used == 0


def test_known_faults_would_show(model) -> None:
    """The prompt of which five logits are known, and the loss of a sentence: a wrong head order, RoPE or norm fails."""
    engine = Engine(model)
    prompt = [504, 3575, 282, 4649, 314]
    engine.add_request(prompt, SamplingParams(temperature=0, max_new_tokens=1))
    logits = engine.step().raw_logits[0]
    assert logits.topk(5).values.tolist() == pytest.approx([17.3713, 14.8886, 13.2450, 13.0095, 12.9515], abs=2e-3)
    assert logits.softmax(0)[7042].item() == pytest.approx(0.7725, abs=5e-4)


def test_the_loss_of_a_known_sentence(model) -> None:
    engine = Engine(model)
    ids = model.tokenizer.encode(
        "The capital of France is Paris. The capital of Germany is Berlin. The capital of Italy is Rome.",
        parse_special=False,
    )
    assert len(ids) == 21
    engine.add_request(ids, SamplingParams(max_new_tokens=0))
    state = engine.step()
    log_probs = logits_of(engine, state.final_norm_out).log_softmax(-1)
    losses = -log_probs[:-1].gather(1, torch.tensor(ids[1:])[:, None])
    assert losses.mean().item() == pytest.approx(1.3168, abs=5e-4)
