"""The attention half of a layer: each token gathers from the tokens before it.

T rows (tokens of this step), E hidden size, H query heads, K key/value heads, G = H / K, D head dim. Attention runs
group by group (groups.py): S sequences with Tq rows each, up to C keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from miniinfer.engine.kv_cache import KEYS, VALUES
from miniinfer.engine.ops import rms_norm, rotate
from miniinfer.engine.placement import place_tokens

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.state import StepState


def attn_norm(engine: Engine, state: StepState) -> None:
    """Bring each residual vector to the same length before attention reads it."""
    if state.layer > 0:
        state.resid_pre = state.resid_post  # this layer goes on where the one before it ended
    weight = engine.weights.layers[state.layer].attn_norm
    state.attn_norm_out = rms_norm(state.resid_pre, weight, engine.model_config.norm_eps)  # [T, E]


def qkv_proj(engine: Engine, state: StepState) -> None:
    """Make a query for every head, and a key and a value for every key/value head, with one product."""
    model = engine.model_config
    heads = (model.num_heads, model.num_kv_heads, model.num_kv_heads)
    qkv = engine.weights.layers[state.layer].qkv(state.attn_norm_out)  # [T, (H + 2K) * D]
    qkv = qkv.view(-1, sum(heads), model.head_dim)  # [T, H + 2K, D]
    state.q, state.k, state.v = qkv.split(heads, dim=1)  # [T, H, D], [T, K, D], [T, K, D]


def rope(engine: Engine, state: StepState) -> None:
    """Turn queries and keys by angles that grow with their position, so that a score depends on the distance."""
    model = engine.model_config
    turned = rotate(torch.cat((state.q, state.k), dim=1), state.rope_cos, state.rope_sin)  # [T, H + K, D]
    state.q, state.k = turned.split((model.num_heads, model.num_kv_heads), dim=1)  # [T, H, D], [T, K, D]


def write_kv(engine: Engine, state: StepState) -> None:
    """Store the new keys and values in the cache: later tokens will read them instead of computing them again."""
    place_tokens(engine, state)
    engine.kv_cache.write(state.layer, state.slot_mapping, state.new_blocks, state.k, state.v)


def attn_scores(engine: Engine, state: StepState) -> None:
    """Compare each query with all keys up to its own position: dot products, divided by the root of the head size."""
    all_scores = []
    for group, products in zip(state.groups, query_key_products(engine, state), strict=True):
        scores = products * engine.model_config.head_dim**-0.5  # [K, S, G, Tq, C]
        if group.hidden is not None:
            scores = scores.masked_fill(group.hidden, float("-inf"))
        all_scores.append(scores)
    state.attn_scores = tuple(all_scores)


def query_key_products(engine: Engine, state: StepState) -> list[Tensor]:
    """For each group q . k of its rows with all C keys, [K, S, G, Tq, C], the later ones too."""
    num_kv_heads = engine.model_config.num_kv_heads
    all_products = []
    for group, blocks in zip(state.groups, state.block_tables, strict=True):
        queries = group.split_queries(state.q, num_kv_heads)  # [K * S, G * Tq, D]
        keys = engine.kv_cache.gather(state.layer, KEYS, blocks, group.num_seqs, group.context_len)  # [K * S, C, D]
        all_products.append(group.split_heads(queries @ keys.mT, num_kv_heads))
    return all_products


def attn_pattern(engine: Engine, state: StepState) -> None:
    """Turn each row of scores into weights that sum to 1: softmax."""
    state.attn_pattern = tuple(
        scores.float().softmax(dim=-1).to(scores.dtype)  # [K, S, G, Tq, C]
        for scores in state.attn_scores
    )


def attn_mix(engine: Engine, state: StepState) -> None:
    """Mix the values of the positions looked at, each by its weight."""
    num_kv_heads = engine.model_config.num_kv_heads
    mixes = []
    for group, blocks, pattern in zip(state.groups, state.block_tables, state.attn_pattern, strict=True):
        values = engine.kv_cache.gather(state.layer, VALUES, blocks, group.num_seqs, group.context_len)  # [K * S, C, D]
        weights = pattern.view(values.shape[0], -1, group.context_len)  # [K * S, G * Tq, C]
        mixes.append(group.join_heads(weights @ values, num_kv_heads))  # [S * Tq, H, D]
    state.z = torch.cat(mixes)  # [T, H, D]


def attn_out(engine: Engine, state: StepState) -> None:
    """Bring the heads together in one vector and add it to the residual stream."""
    state.attn_out = engine.weights.layers[state.layer].attn_out(state.z.flatten(1))  # [T, H * D] -> [T, E]
    state.resid_mid = state.resid_pre + state.attn_out  # [T, E]
