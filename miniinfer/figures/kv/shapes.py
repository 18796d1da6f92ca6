"""Bytes of a KV cache as a product of named factors: of this run's model, of what-ifs, and of well-known models."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from miniinfer.config import ModelConfig

GIB = 2**30
ITEMSIZES = {"float32": 4, "bfloat16": 2, "int8": 1}


@dataclass(frozen=True)
class KVShape:
    """What decides the size of a model's KV cache. num_params: of the whole model, for the weights beside the cache."""

    name: str
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    context_length: int
    num_params: int

    def bytes_per_position(self, itemsize: int) -> int:
        """2 (K and V) x layers x KV heads x head dim x itemsize."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * itemsize

    @property
    def without_gqa(self) -> KVShape:
        """The same model if every query head had a KV head of its own."""
        return replace(self, num_kv_heads=self.num_heads)

    @property
    def group_size(self) -> int:
        """Query heads that share one KV head."""
        return self.num_heads // self.num_kv_heads


# From each model's published config. num_params is the published count, which the shapes give too.
KNOWN = (
    KVShape("GPT-2 small", 12, 12, 12, 64, 1_024, 124_439_808),
    KVShape("SmolLM2-1.7B", 24, 32, 32, 64, 8_192, 1_711_376_384),
    KVShape("Llama-2-7B", 32, 32, 32, 128, 4_096, 6_738_415_616),
    KVShape("Mistral-7B v0.3", 32, 32, 8, 128, 32_768, 7_248_023_552),
    KVShape("Llama-3-8B", 32, 32, 8, 128, 8_192, 8_030_261_248),
    KVShape("Llama-3.1-8B", 32, 32, 8, 128, 131_072, 8_030_261_248),
    KVShape("Qwen2.5-7B", 28, 28, 4, 128, 131_072, 7_615_616_512),
    KVShape("Llama-3-70B", 80, 64, 8, 128, 8_192, 70_553_706_496),
    KVShape("Llama-3.1-70B", 80, 64, 8, 128, 131_072, 70_553_706_496),
)

# GiB of memory as sold; a program gets a little less.
CARDS = {
    "RTX 3060, 12 GiB": 12, "T4, 16 GiB": 16, "L4 or RTX 4090, 24 GiB": 24, "A100, 40 GiB": 40,
    "A100 or H100, 80 GiB": 80, "H200, 141 GiB": 141,
}  # fmt: skip


def shape_of(name: str, config: ModelConfig, num_params: int = 0) -> KVShape:
    """Head size and KV heads as the config says: neither is derived from the hidden size."""
    return KVShape(
        name, config.num_layers, config.num_heads, config.num_kv_heads, config.head_dim, config.context_length,
        num_params,
    )


@dataclass(frozen=True)
class Factor:
    """One factor of the product, in the words of the field. colour: place in the palette's series."""

    name: str
    value: int
    colour: int
    why: str


def factors(shape: KVShape, itemsize: int, positions: int) -> tuple[Factor, ...]:
    """Their product is the bytes of that many positions."""
    return (
        Factor("K and V", 2, 0, "Each token leaves a key and a value in every layer."),
        Factor("layers", shape.num_layers, 1, "Every layer has a cache of its own."),
        Factor("KV heads", shape.num_kv_heads, 2, "Not the query heads: several of them share one KV head (GQA)."),
        Factor("head dim", shape.head_dim, 3, "How many numbers one key or value of one head has."),
        Factor("bytes a number", itemsize, 4, "4 in float32, 2 in bfloat16, 1 in int8."),
        Factor("positions", positions, 5, "One for each token that has gone through the model. A straight line."),
    )


@dataclass(frozen=True)
class GhostLine:
    """A cache as a straight line over the length. base_bytes: what lies beside it in the card's memory, 0 if left out.

    own: this run's model, actual: and in its own number format, with its own KV heads.
    """

    label: str
    shape: KVShape
    itemsize: int
    base_bytes: int = 0
    own: bool = False
    actual: bool = False

    @property
    def position_bytes(self) -> int:
        return self.shape.bytes_per_position(self.itemsize)

    def at(self, positions: int) -> int:
        return self.base_bytes + positions * self.position_bytes

    def full_at(self, memory_bytes: int) -> int | None:
        """The most positions that fit into that memory; None if the whole context does. 0: not even the weights."""
        fits = max(0, math.floor((memory_bytes - self.base_bytes) / self.position_bytes))
        return None if fits >= self.shape.context_length else fits


def own_lines(shape: KVShape, itemsize: int, weight_bytes: int) -> list[GhostLine]:
    """The run's model as it runs, and the three what-ifs about it."""
    dtype = next((name for name, size in ITEMSIZES.items() if size == itemsize), f"{itemsize} bytes")
    lines = [GhostLine(f"{shape.name}, {dtype} (this run)", shape, itemsize, weight_bytes, own=True, actual=True)]
    if shape.group_size > 1:
        lines.append(GhostLine(f"without GQA, {dtype}", shape.without_gqa, itemsize, weight_bytes, own=True))
    lines += [
        GhostLine(f"cache in {name}", shape, size, weight_bytes, own=True)
        for name, size in ITEMSIZES.items()
        if size < itemsize
    ]
    return lines


def known_lines(shapes: list[KVShape], dtype: str, *, weights: bool) -> list[GhostLine]:
    """Well-known models with their cache in `dtype`; their weights, if wanted, in 2 bytes a parameter."""
    return [
        GhostLine(shape.name, shape, ITEMSIZES[dtype], 2 * shape.num_params if weights else 0) for shape in shapes
    ]
