"""Packed is a truth of its own: how far it is from float32 on the real model, from above and from below."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.lookup import attention_rows, logits_of, pattern_row
from miniinfer.models.loader import LoadedModel, load_model

ONE_PASS = EngineConfig(max_num_batched_tokens=512)


@pytest.fixture(scope="module")
def packed(model_path) -> LoadedModel:
    return load_model(model_path, dtype="packed")


def all_logits(model: LoadedModel, ids: list[int]) -> Tensor:
    """After each token: [T, V]."""
    engine = Engine(model, ONE_PASS)
    engine.add_request(ids, SamplingParams(max_new_tokens=0))
    return logits_of(engine, engine.step().final_norm_out)


def test_the_difference_on_all_reference_prompts(model: LoadedModel, packed: LoadedModel, reference) -> None:
    """Prompts and their greedy continuations. Measured: mean KL 0.0006, largest 0.025, same best token in 99.4 %."""
    kl, same = [], []
    for case in reference["cases"]:
        ids = case["ids"] + case["greedy_ids"]
        theirs, ours = all_logits(model, ids), all_logits(packed, ids)
        log_p, log_q = theirs.log_softmax(-1), ours.log_softmax(-1)
        kl.append((log_p.exp() * (log_p - log_q)).sum(-1))
        same.append(theirs.argmax(-1) == ours.argmax(-1))
        for token_id, value in case["last_logits_top20"]:
            assert ours[len(case["ids"]) - 1, token_id].item() == pytest.approx(value, abs=1.0)
    found = torch.cat(kl)
    assert 1e-5 < found.mean() < 2e-3
    assert found.max() < 0.1
    assert torch.cat(same).float().mean() > 0.97


def test_what_is_between_products_is_float32_and_what_comes_out_of_blocks_is_rounded(packed: LoadedModel) -> None:
    engine = Engine(packed)
    engine.add_request([504, 3575, 282, 4649, 314], SamplingParams(temperature=0, max_new_tokens=2))
    seen = set()

    def check(stage, state) -> None:
        for name in ("resid_pre", "q", "k", "v", "z", "attn_out", "mlp_hidden", "mlp_out", "final_norm_out"):
            value = getattr(state, name)
            assert value.dtype == torch.float32, (stage.name, name)
        if stage.name in ("attn_out", "mlp_out"):
            value = getattr(state, stage.name)
            assert torch.equal(value, value.bfloat16().float())
            seen.add(stage.name)
        if stage.name == "unembed":
            assert not torch.equal(state.raw_logits, state.raw_logits.bfloat16().float())
            seen.add(stage.name)

    while engine.step(check):
        engine.check()
    assert seen == {"attn_out", "mlp_out", "unembed"}
    assert engine.kv_cache.data.dtype == torch.float32


@pytest.mark.parametrize("chunk", [1, 7])
def test_looking_back_and_chunks(chunk: int, packed: LoadedModel, reference: dict[str, Any]) -> None:
    """A row is bit-equal to what the step saw; another order of sums before a rounding moves a logit a little."""
    ids = reference["cases"][2]["ids"][:29]
    engine = Engine(packed)
    seq = engine.add_request(ids, SamplingParams(temperature=0, max_new_tokens=1), prefill_chunk=chunk)
    states = []
    while state := engine.step():
        states.append(state)
    last = states[-1]
    assert torch.equal(logits_of(engine, last.final_norm_out)[-1:], last.raw_logits)
    whole = all_logits(packed, ids)[-1]
    difference = (whole - last.raw_logits[0]).abs().max()
    assert difference < 0.05 * whole.abs().max()
    if chunk == 1:
        rows = attention_rows(engine, seq, 29, last.q, len(ids) - 1)[:, 0]
        assert torch.equal(rows, pattern_row(last, 0))


def test_weights_are_the_packed_bytes(model: LoadedModel, packed: LoadedModel) -> None:
    config = packed.config
    assert (packed.dtype, packed.device, packed.weights.dtype) == ("packed", "cpu", torch.float32)
    in_blocks = sum(kept.nbytes for kept in packed.report.kept if kept.kept == "4-bit blocks")
    heads = config.num_heads + 2 * config.num_kv_heads
    per_layer = config.hidden_size * config.head_dim * (heads + config.num_heads)
    per_layer += 3 * config.hidden_size * config.intermediate_size
    assert in_blocks == config.num_layers * per_layer * 20 // 32, "as many as Q4_1 has in the file"
    norms = (2 * config.num_layers + 1) * config.hidden_size * 4
    assert packed.weights.nbytes == sum(kept.nbytes for kept in packed.report.kept) + norms
    assert packed.weight_bytes < 0.3 * model.weight_bytes


def test_the_report_says_what_fell_back_and_what_it_cost(packed: LoadedModel) -> None:
    kept = packed.report.kept
    assert len(kept) == 4 * packed.config.num_layers + 1
    (fallen,) = (matrix for matrix in kept if matrix.why)
    assert (fallen.names, fallen.stored) == (("token_embd.weight",), ("Q8_0",))
    assert "one for a whole row" in fallen.why
    assert all(1e-3 < matrix.difference < 4e-3 for matrix in kept if matrix.kept == "4-bit blocks")
    assert dataclasses.replace(fallen, kept="float16").difference < 3e-4
