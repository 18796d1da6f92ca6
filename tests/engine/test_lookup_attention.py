"""Attention taken apart equals what the step computed, stage by stage, and what the definition says."""

from __future__ import annotations

import pytest
import torch

from miniinfer.config import SamplingParams
from miniinfer.engine.lookup import kv_at, pattern_rows
from miniinfer.engine.lookup_attention import attention_parts, head_outputs, rotated, unrotate
from miniinfer.errors import BadInputError
from tests.engine.helpers import PROMPT, SMALL, tiny_engine


class Keeper:
    """Of each step and layer: q and k before and after RoPE, scores, pattern, z, attn_out."""

    def __init__(self) -> None:
        self.steps: list[dict] = []

    def __call__(self, stage, state) -> None:
        if stage.name == "schedule":
            names = ("q_before", "k_before", "q", "scores", "pattern", "z", "out")
            self.steps.append({"scheduled": state.scheduled, **{name: [] for name in names}})
        step = self.steps[-1]
        if stage.name == "qkv_proj":
            step["q_before"].append(state.q)
            step["k_before"].append(state.k)
        elif stage.name == "attn_scores":
            step["q"].append(state.q)
            step["scores"].append(state.attn_scores[0][:, 0].flatten(0, 1))
        elif stage.name == "attn_pattern":
            step["pattern"].append(pattern_rows(state, 0))
        elif stage.name == "attn_out":
            step["z"].append(state.z)
            step["out"].append(state.attn_out)


@pytest.fixture
def kept():
    engine, keeper = tiny_engine(SMALL), Keeper()
    seq = engine.add_request(PROMPT, SamplingParams(temperature=0, max_new_tokens=8))
    while engine.step(keeper):
        pass
    return engine, seq, keeper.steps


def test_every_part_equals_the_steps_own_tensor_bit_for_bit(kept) -> None:
    engine, seq, steps = kept
    for step in steps:
        [entry] = step["scheduled"]
        for layer in range(3):
            parts = attention_parts(engine, seq, layer, step["q"][layer], entry.start)
            assert torch.equal(parts.masked, step["scores"][layer])
            assert torch.equal(parts.pattern, step["pattern"][layer])
            assert torch.equal(parts.z, step["z"][layer])
            visible = parts.masked > -torch.inf
            assert torch.equal(parts.scaled[visible], parts.masked[visible])
            assert torch.equal(parts.products * engine.model_config.head_dim**-0.5, parts.scaled)
            later = torch.arange(entry.stop) > torch.arange(entry.start, entry.stop)[:, None]
            assert torch.equal(~visible, later.expand_as(visible))


def test_a_product_is_the_sum_that_one_writes_on_paper(kept) -> None:
    engine, seq, steps = kept
    q, stop = steps[0]["q"][1], len(PROMPT)
    parts = attention_parts(engine, seq, 1, q, 0)
    keys, _ = kv_at(engine, seq, 1, 0, stop)
    group_size = engine.model_config.group_size
    for head, row, key in ((0, 0, 0), (4, 3, 1), (5, 6, 6), (9, 2, 5)):
        by_hand = sum(float(a) * float(b) for a, b in zip(q[row, head], keys[head // group_size, key], strict=True))
        assert float(parts.products[head, row, key]) == pytest.approx(by_hand, rel=1e-5, abs=1e-6)


def test_before_the_mask_the_keys_may_go_further(kept) -> None:
    engine, seq, steps = kept
    q = steps[0]["q"][2]
    whole = attention_parts(engine, seq, 2, q, 0)
    some = attention_parts(engine, seq, 2, q[1:3], 1, keys=len(PROMPT))
    assert some.products.shape == (10, 2, len(PROMPT))
    assert some.pattern.shape == (10, 2, 3)
    torch.testing.assert_close(some.products, whole.products[:, 1:3], atol=1e-6, rtol=1e-6)
    with pytest.raises(BadInputError, match="not in the cache"):
        attention_parts(engine, seq, 2, q[1:3], 1, keys=seq.num_computed_tokens + 1)


def test_what_the_heads_add_sums_to_attn_out(kept) -> None:
    engine, _, steps = kept
    for layer in range(3):
        z, out = steps[2]["z"][layer][0], steps[2]["out"][layer][0]
        added = head_outputs(engine, layer, z)
        assert added.shape == (10, 28)
        torch.testing.assert_close(added.sum(0), out, atol=1e-5, rtol=1e-5)


def test_turning_back_gives_what_stood_before_rope(kept) -> None:
    engine, seq, steps = kept
    positions = torch.arange(len(PROMPT))
    for layer in range(3):
        keys = kv_at(engine, seq, layer, 0, len(PROMPT))[0].transpose(0, 1)
        torch.testing.assert_close(unrotate(engine, keys, positions), steps[0]["k_before"][layer], atol=1e-5, rtol=1e-5)
        q = steps[0]["q_before"][layer]
        assert torch.equal(rotated(engine, q, positions), steps[0]["q"][layer])
