"""A tiny llama with random weights. Every size differs from every other, so that a wrong axis fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from miniinfer.config import ModelConfig
from miniinfer.engine.embedding import Embedding
from miniinfer.engine.linear import Linear
from miniinfer.engine.weights import LayerWeights, Weights

TINY = ModelConfig(
    architecture="llama",
    num_layers=3,
    num_heads=10,
    num_kv_heads=2,
    head_dim=8,
    hidden_size=28,
    intermediate_size=44,
    vocab_size=67,
    context_length=96,
    rope_base=1000.0,
    norm_eps=1e-5,
    tied=True,
)


@dataclass(frozen=True)
class TinyModel:
    """Satisfies `ModelLike`. token_bytes[i] is two bytes, but for a few ids: see `tiny_token_bytes`."""

    config: ModelConfig
    weights: Weights
    stop_ids: frozenset[int]
    token_bytes: tuple[bytes, ...]


def tiny_token_bytes(vocab_size: int) -> tuple[bytes, ...]:
    """Distinct bytes for each id: 'aa', 'ab', ... with the four bytes of one smiling face split over ids 3 and 4."""
    letters = b"abcdefghijklmnopqrstuvwxyz"
    spelled = [bytes((letters[i // 26], letters[i % 26])) for i in range(vocab_size)]
    spelled[3], spelled[4] = b"\xf0\x9f", b"\x99\x82"
    return tuple(spelled)


def tiny_model(
    *,
    config: ModelConfig = TINY,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    stop_ids: frozenset[int] = frozenset(),
    linear: Callable[[Tensor], Linear] = Linear,
    scale: float = 1.0,
) -> TinyModel:
    """Random weights of a size that gives lively attention and logits with clear margins."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return (torch.randn(*shape, generator=generator) * scale * 1.6 / shape[-1] ** 0.5).to(dtype)

    def norm() -> Tensor:
        return (1 + 0.2 * torch.randn(config.hidden_size, generator=generator)).to(dtype)

    e, f, d = config.hidden_size, config.intermediate_size, config.head_dim
    layers = tuple(
        LayerWeights(
            attn_norm=norm(),
            qkv=linear(random((config.num_heads + 2 * config.num_kv_heads) * d, e)),
            attn_out=linear(random(e, config.num_heads * d)),
            mlp_norm=norm(),
            gate_up=linear(random(2 * f, e)),
            down=linear(random(e, f)),
        )
        for _ in range(config.num_layers)
    )
    embedding = random(config.vocab_size, e) * e**0.5
    weights = Weights(
        embedding=Embedding.dense(embedding.to(dtype)),
        layers=layers,
        final_norm=norm(),
        unembed=linear(random(config.vocab_size, e)),
        device=torch.device("cpu"),
        dtype=dtype,
    )
    return TinyModel(config, weights, stop_ids, tiny_token_bytes(config.vocab_size))
