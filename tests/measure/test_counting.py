"""Bytes and operations, against numbers worked out by hand, the tensors of a real step, and torch's own counter."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.linear import Linear
from miniinfer.engine.program import build_program
from miniinfer.measure.counting import StepShape, count_step, token_cost
from tests.engine.tiny import TINY, tiny_model
from tests.measure.helpers import IDS

PRODUCTS = ("qkv_proj", "attn_scores", "attn_mix", "attn_out", "mlp_hidden", "mlp_out", "unembed")


def costs_of(shape: StepShape) -> dict:
    model = tiny_model()
    return {(c.stage, c.layer): c for c in count_step(build_program(TINY), model.weights, TINY, shape)}


def test_a_decode_step_of_the_tiny_model_worked_out_by_hand() -> None:
    # L 3, H 10, K 2, D 8, E 28, F 44, V 67, float32; 9 positions in the cache after the step.
    costs = costs_of(StepShape.decode(9))
    qkv = costs["qkv_proj", 1]
    assert (qkv.weight_bytes, qkv.operations) == (14 * 8 * 28 * 4, 2 * 28 * 112)
    assert (qkv.input_bytes, qkv.written_bytes) == (28 * 4, 112 * 4)
    scores = costs["attn_scores", 2]
    assert (scores.kv_bytes, scores.written_bytes) == (9 * 2 * 8 * 4, 10 * 9 * 4)
    assert scores.operations == 10 * 9 * (2 * 8 + 1)
    assert costs["attn_mix", 0].kv_bytes == 576
    hidden = costs["mlp_hidden", 0]
    assert (hidden.weight_bytes, hidden.operations) == (9856, 2 * 28 * 88 + 4 * 44)
    out = costs["mlp_out", 0]
    assert (out.weight_bytes, out.operations) == (4928, 2 * 44 * 28 + 28)
    unembed = costs["unembed", None]
    assert (unembed.weight_bytes, unembed.written_bytes, unembed.operations) == (7504, 67 * 4, 3752)
    assert costs["write_kv", 0].written_bytes == 2 * 2 * 8 * 4
    assert costs["commit", None].num_bytes == 0


def test_all_weights_are_read_once_and_the_cache_grows_by_one_position_a_token() -> None:
    model = tiny_model()
    program = build_program(TINY)
    one, two = (token_cost(program, model.weights, TINY, n) for n in (10, 11))
    row = 28 * 4  # of the embedding
    assert one.weight_bytes == two.weight_bytes == model.weights.nbytes + row == 117_264
    assert two.kv_bytes - one.kv_bytes == TINY.kv_bytes_per_token(4) == 384
    assert one.kv_bytes == 10 * 384


def test_a_prefill_reads_the_weights_once_for_all_its_tokens() -> None:
    decode, prefill = costs_of(StepShape.decode(7)), costs_of(StepShape.prefill(7))
    assert prefill["qkv_proj", 0].weight_bytes == decode["qkv_proj", 0].weight_bytes
    assert prefill["qkv_proj", 0].operations == 7 * decode["qkv_proj", 0].operations
    assert prefill["attn_scores", 0].operations == 7 * decode["attn_scores", 0].operations  # hidden ones included
    assert prefill["attn_scores", 0].kv_bytes == decode["attn_scores", 0].kv_bytes
    assert prefill["unembed", None] == decode["unembed", None]


def test_a_step_that_samples_nobody_leaves_the_unembed_matrix_alone() -> None:
    costs = costs_of(StepShape(4, 0, ((1, 4, 4),)))
    assert costs["unembed", None].num_bytes == costs["sample", None].num_bytes == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_written_bytes_are_those_of_the_tensors_of_a_real_step(dtype: torch.dtype) -> None:
    model = tiny_model(dtype=dtype)
    engine = Engine(model, EngineConfig(block_size=4))
    engine.add_request(IDS, SamplingParams(temperature=0.7, top_p=0.9, max_new_tokens=3))
    engine.add_request(IDS[:3], SamplingParams(temperature=0, max_new_tokens=3))
    while engine.has_unfinished:
        written: dict = {}
        changed: set[str] = set()
        shapes = []
        seen: dict[int, torch.Tensor] = {}

        def watch(stage, state, written=written, changed=changed, shapes=shapes, seen=seen):  # type: ignore[no-untyped-def]
            new = 0
            for name in stage.writes:
                value = getattr(state, name, None)
                for tensor in value if isinstance(value, tuple) else (value,):
                    # slot_mapping and the like are bookkeeping of write_kv, not what it is there for
                    if isinstance(tensor, torch.Tensor) and id(tensor) not in seen and stage.name != "write_kv":
                        seen[id(tensor)] = tensor
                        new += tensor.nbytes
            written[stage.name, stage.layer] = new
            if stage.name == "write_kv":
                written[stage.name, stage.layer] = state.k.nbytes + state.v.nbytes
            if stage.processor is not None and new:
                changed.add(stage.name)
            if stage.name == "prepare_inputs":
                shapes.append(StepShape.of(state))

        engine.step(watch)
        shape = StepShape(shapes[0].num_tokens, shapes[0].num_sampled, shapes[0].groups, frozenset(changed))
        for cost in count_step(engine.program, model.weights, TINY, shape):
            assert cost.written_bytes == written[cost.stage, cost.layer], (cost.stage, cost.layer)
        assert {"processor_3", "processor_5"} == changed


@pytest.mark.parametrize("num_tokens", [1, 7])
def test_products_have_as_many_operations_as_torch_counts(num_tokens: int) -> None:
    model = tiny_model(linear=Linear.plain)
    engine = Engine(model)
    engine.add_request(IDS[:num_tokens], SamplingParams(temperature=0, max_new_tokens=1))
    with FlopCounterMode(display=False) as counter:
        engine.step()
    costs = count_step(engine.program, model.weights, TINY, StepShape.prefill(num_tokens))
    counted = sum(c.operations for c in costs if c.stage in PRODUCTS)
    T, L, H, E, F = num_tokens, TINY.num_layers, TINY.num_heads, TINY.hidden_size, TINY.intermediate_size
    beside = L * (H * T * T + T * E + 4 * T * F + T * E)  # division of the scores, two residual sums, silu times up
    assert counted - beside == counter.get_total_flops()
