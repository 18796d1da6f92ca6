"""The same transformer once more, as plain as possible: float64, no cache, one sequence, one head at a time."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from miniinfer.engine.weights import ModelLike


def oracle_logits(model: ModelLike, token_ids: list[int]) -> Tensor:
    """Logits after each token: [T, V] float64."""
    config, weights = model.config, model.weights
    x = weights.embedding(torch.tensor(token_ids)).double()  # [T, E]
    for layer in weights.layers:
        x = x + attention(config, layer, norm(x, layer.attn_norm, config.norm_eps))
        h = norm(x, layer.mlp_norm, config.norm_eps) @ layer.gate_up.to_dense().double().T
        gate, up = h[:, : config.intermediate_size], h[:, config.intermediate_size :]
        x = x + (gate * torch.sigmoid(gate) * up) @ layer.down.to_dense().double().T
    return norm(x, weights.final_norm, config.norm_eps) @ weights.unembed.to_dense().double().T


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x / (x * x).mean(dim=1, keepdim=True).add(eps).sqrt() * weight.double()


def attention(config, layer, x: Tensor) -> Tensor:
    rows = layer.qkv.to_dense().double()
    d, heads, kv_heads = config.head_dim, config.num_heads, config.num_kv_heads
    mixes = []
    for h in range(heads):
        kv = h // (heads // kv_heads)
        q = turn(x @ rows[h * d : (h + 1) * d].T, config.rope_base)  # [T, D]
        k = turn(x @ rows[(heads + kv) * d : (heads + kv + 1) * d].T, config.rope_base)
        v = x @ rows[(heads + kv_heads + kv) * d : (heads + kv_heads + kv + 1) * d].T
        scores = q @ k.T / math.sqrt(d)
        later = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
        mixes.append(scores.masked_fill(later, -math.inf).softmax(1) @ v)
    return torch.cat(mixes, dim=1) @ layer.attn_out.to_dense().double().T


def turn(x: Tensor, base: float) -> Tensor:
    """RoPE on [T, D] with pairs (i, i + D / 2), as complex numbers."""
    half = x.shape[1] // 2
    angles = torch.arange(len(x)).double()[:, None] * base ** (-torch.arange(half).double() / half)
    turned = torch.complex(x[:, :half], x[:, half:]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat((turned.real, turned.imag), dim=1)
