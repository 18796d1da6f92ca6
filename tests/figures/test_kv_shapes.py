"""Bytes of a KV cache as named factors: of this model, of what-ifs, of well-known models."""

from __future__ import annotations

import math

import pytest

from miniinfer.config import ModelConfig
from miniinfer.figures.kv.shapes import (
    CARDS,
    GIB,
    KNOWN,
    KVShape,
    factors,
    known_lines,
    own_lines,
    shape_of,
)
from miniinfer.figures.kv.tables import (
    lines_table,
)

SMOL = ModelConfig("llama", 30, 9, 3, 64, 576, 1536, 49_152, 8_192, 100_000.0, 1e-5, True)
OTHER = ModelConfig("llama", 36, 32, 8, 128, 2560, 9_728, 151_936, 40_960, 1_000_000.0, 1e-6, True)


def known(name: str) -> KVShape:
    return next(shape for shape in KNOWN if shape.name == name)


def test_kv_13_the_bytes_of_a_position() -> None:
    """KV-13: KV heads, not query heads; the head size of the config, not hidden size / heads."""
    smol = shape_of("SmolLM2", SMOL)
    assert smol.bytes_per_position(4) == SMOL.kv_bytes_per_token(4) == 46_080
    assert smol.bytes_per_position(2) == 23_040
    assert smol.bytes_per_position(1) == 11_520
    assert smol.bytes_per_position(2) * 8_192 == 180 * 2**20
    assert smol.bytes_per_position(4) * 8_192 == 360 * 2**20
    assert smol.without_gqa.bytes_per_position(2) == 69_120
    assert smol.without_gqa.bytes_per_position(4) == 3 * 46_080
    other = shape_of("explicit head size", OTHER)
    assert other.head_dim == 128
    assert other.bytes_per_position(2) == 2 * 36 * 8 * 128 * 2


def test_named_factors_make_the_bytes() -> None:
    found = factors(shape_of("SmolLM2", SMOL), 4, 37)
    assert [(f.name, f.value) for f in found] == [
        ("K and V", 2), ("layers", 30), ("KV heads", 3), ("head dim", 64), ("bytes a number", 4), ("positions", 37),
    ]  # fmt: skip
    assert math.prod(f.value for f in found) == 37 * 46_080
    assert [f.colour for f in found] == list(range(6)), "every factor has a colour of its own"


def llama_params(shape: KVShape, hidden: int, mlp: int, vocab: int, *, tied: bool = False, bias: bool = False) -> int:
    """All weights of a llama-like model, counted from its shapes."""
    h, k, d = shape.num_heads, shape.num_kv_heads, shape.head_dim
    layer = 2 * hidden * h * d + 2 * hidden * k * d + 3 * hidden * mlp + 2 * hidden + bias * (h + 2 * k) * d
    return vocab * hidden * (1 if tied else 2) + shape.num_layers * layer + hidden


@pytest.mark.parametrize(
    ("name", "hidden", "mlp", "vocab", "kinds"),
    [
        ("SmolLM2-1.7B", 2048, 8192, 49_152, {"tied": True}), ("Llama-2-7B", 4096, 11_008, 32_000, {}),
        ("Mistral-7B v0.3", 4096, 14_336, 32_768, {}), ("Llama-3-8B", 4096, 14_336, 128_256, {}),
        ("Llama-3.1-8B", 4096, 14_336, 128_256, {}), ("Qwen2.5-7B", 3584, 18_944, 152_064, {"bias": True}),
        ("Llama-3-70B", 8192, 28_672, 128_256, {}), ("Llama-3.1-70B", 8192, 28_672, 128_256, {}),
    ],
)  # fmt: skip
def test_facts_of_well_known_models_agree_with_their_parameter_counts(
    name: str, hidden: int, mlp: int, vocab: int, kinds: dict[str, bool]
) -> None:
    """The published count follows from layers, heads and head size, so a slip in one of them would show."""
    assert llama_params(known(name), hidden, mlp, vocab, **kinds) == known(name).num_params


def test_gpt_2_small_and_bytes_of_well_known_models() -> None:
    e, layers, vocab, context = 768, 12, 50_257, 1_024
    block = (e * 3 * e + 3 * e) + (e * e + e) + (e * 4 * e + 4 * e) + (4 * e * e + e) + 4 * e
    assert known("GPT-2 small").num_params == vocab * e + context * e + layers * block + 2 * e
    per_position = {shape.name: shape.bytes_per_position(2) for shape in KNOWN}
    assert per_position["Llama-2-7B"] == 512 * 2**10
    assert per_position["Llama-3-8B"] == 128 * 2**10
    assert per_position["Llama-3.1-70B"] == 320 * 2**10
    assert per_position["Qwen2.5-7B"] == 56 * 2**10
    assert per_position["GPT-2 small"] == 36 * 2**10
    assert per_position["Llama-2-7B"] * 4_096 == 2 * GIB


def test_where_a_card_is_full() -> None:
    [line] = known_lines([known("Llama-3.1-70B")], "bfloat16", weights=False)
    memory = CARDS["L4 or RTX 4090, 24 GiB"] * GIB
    full = line.full_at(memory)
    assert full == 78_643
    assert line.at(full) <= memory < line.at(full + 1)
    [heavy] = known_lines([known("Llama-3.1-70B")], "bfloat16", weights=True)
    assert heavy.full_at(memory) == 0, "the weights alone do not fit"
    [light] = known_lines([known("Llama-3.1-8B")], "bfloat16", weights=True)
    assert light.base_bytes == 2 * 8_030_261_248
    assert light.full_at(memory) == (memory - 2 * 8_030_261_248) // 131_072
    assert known_lines([known("GPT-2 small")], "bfloat16", weights=False)[0].full_at(memory) is None


def test_lines_of_the_runs_own_model() -> None:
    lines = own_lines(shape_of("SmolLM2", SMOL), 4, 0)
    assert [line.position_bytes for line in lines] == [46_080, 138_240, 23_040, 11_520]
    assert [line.actual for line in lines] == [True, False, False, False]
    assert [line.position_bytes for line in own_lines(shape_of("b", SMOL), 2, 0)] == [23_040, 69_120, 11_520]
    no_gqa = own_lines(known("GPT-2 small"), 4, 7)
    assert [line.label for line in no_gqa] == ["GPT-2 small, float32 (this run)", "cache in bfloat16", "cache in int8"]
    assert no_gqa[0].at(2) == 7 + 2 * 73_728
    table = lines_table(lines, 100 * 46_080)
    assert table["card is full at"].tolist() == [100, 33, 200, 400]
    assert table["cache bytes at full context"].tolist()[0] == 360 * 2**20
