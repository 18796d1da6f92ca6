"""bfloat16: weights, activations and cache in two bytes, sampling in float32. Close, never equal (case KV-12)."""

from __future__ import annotations

import torch

from miniinfer.config import SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.lookup import attention_rows, logits_of
from tests.engine.helpers import GREEDY, PROMPT, PROMPTS, SMALL, run_all, shared_tiny
from tests.engine.tiny import tiny_model


def test_a_tiny_model() -> None:
    engine = Engine(tiny_model(dtype=torch.bfloat16), SMALL)
    seqs = [engine.add_request(prompt, GREEDY) for prompt in PROMPTS]
    kept = {}

    def check(stage, state) -> None:
        for name in ("resid_pre", "q", "k", "v", "z", "mlp_hidden", "resid_post", "final_norm_out"):
            value = getattr(state, name)
            assert value.numel() == 0 or value.dtype == torch.bfloat16, (stage.name, name)
        if stage.name == "attn_pattern":
            assert all(pattern.dtype == torch.bfloat16 for pattern in state.attn_pattern)
            kept[stage.layer] = state.q
        if stage.name == "softmax":
            assert state.raw_logits.dtype == state.logits.dtype == state.probs.dtype == torch.float32

    while state := engine.step(check):
        engine.check()
    assert engine.kv_cache.data.dtype == torch.bfloat16
    assert engine.kv_itemsize == 2
    assert engine.reserved_bytes() == engine.kv_cache.data.untyped_storage().nbytes()
    assert all(seq.finish_reason == "length" for seq in seqs)
    assert state is None
    seq = seqs[-1]
    rows = attention_rows(engine, seq, 2, kept[2][-1:], seq.num_computed_tokens - 1)
    assert rows.dtype == torch.bfloat16


def test_it_is_close_to_float32() -> None:
    logits = {}
    for dtype in (torch.float32, torch.bfloat16):
        engine = Engine(tiny_model(dtype=dtype), SMALL)
        engine.add_request(PROMPT, SamplingParams(temperature=0, max_new_tokens=1))
        logits[dtype] = run_all(engine)[0].raw_logits[0]
    difference = (logits[torch.float32] - logits[torch.bfloat16]).abs().max()
    assert 1e-4 < difference < 0.05 * logits[torch.float32].abs().max()


def test_looking_back_is_bit_equal_too() -> None:
    engine = Engine(tiny_model(dtype=torch.bfloat16), SMALL)
    engine.add_request(PROMPT, GREEDY)
    engine.step()
    state = engine.step()
    assert torch.equal(logits_of(engine, state.final_norm_out.float()), state.raw_logits)
    assert shared_tiny().weights.dtype == torch.float32


def test_the_real_model(model_path) -> None:
    from miniinfer.models.loader import load_model

    engine = Engine(load_model(model_path, device="cpu", dtype="bfloat16"))
    seq = engine.add_request([504, 3575, 282, 4649, 314], SamplingParams(temperature=0, max_new_tokens=3))
    state = engine.step()
    assert 0.70 < state.raw_logits[0].softmax(0)[7042].item() < 0.82
    while engine.step():
        pass
    assert seq.output_ids[0] == 7042
