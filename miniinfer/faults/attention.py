"""Attention that looks where it must not, or with the wrong heads, or too sharply."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from miniinfer.engine.engine import Engine
    from miniinfer.engine.stage import StageFunction
    from miniinfer.engine.state import StepState


def no_causal_mask(healthy: StageFunction) -> StageFunction:
    def prepare_inputs(engine: Engine, state: StepState) -> None:
        """Lay the tokens side by side as ever, but hide nothing: each row sees the tokens that come after it."""
        healthy(engine, state)
        state.groups = tuple(dataclasses.replace(group, hidden=None) for group in state.groups)

    return prepare_inputs


def scores_not_scaled(healthy: StageFunction) -> StageFunction:
    def attn_scores(engine: Engine, state: StepState) -> None:
        """Compare queries and keys, and forget to divide by the root of the head size."""
        healthy(engine, state)
        root = engine.model_config.head_dim**0.5
        state.attn_scores = tuple(scores * root for scores in state.attn_scores)  # [K, S, G, Tq, C] each

    return attn_scores


def rows_in_file_order(healthy: StageFunction) -> StageFunction:
    def qkv_proj(engine: Engine, state: StepState) -> None:
        """Make q and k from rows in the order of the GGUF file: the two halves of each RoPE pair side by side.

        Shuffling what the product gives equals shuffling the rows of the matrix, so no weight is copied.
        """
        healthy(engine, state)
        state.q, state.k = _to_file_order(state.q), _to_file_order(state.k)  # [T, H, D], [T, K, D]

    return qkv_proj


def _to_file_order(x: Tensor) -> Tensor:
    """Entry i of a head goes to 2 i, entry i + D / 2 to 2 i + 1."""
    return x.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)


# Tiled heads: head h reads key/value head h % K, where h // G would be right. The healthy stages read head h's keys at
# place (h // G, h % G), so the queries are laid out anew before them, and what they give is laid back after them.


def kv_heads_tiled_in_scores(healthy: StageFunction) -> StageFunction:
    def attn_scores(engine: Engine, state: StepState) -> None:
        """Compare each query with the keys of head h % K: key/value heads tiled 0 1 2 0 1 2, not repeated 0 0 1 1."""
        queries, num_kv_heads = state.q, engine.model_config.num_kv_heads
        state.q = queries.unflatten(1, (-1, num_kv_heads)).transpose(1, 2).flatten(1, 2)  # head g K + k to k G + g
        healthy(engine, state)
        state.q = queries
        state.attn_scores = tuple(
            scores.permute(2, 0, 1, 3, 4).flatten(0, 1).unflatten(0, (num_kv_heads, -1)).transpose(1, 2)
            for scores in state.attn_scores
        )  # [K, S, G, Tq, C] each, head h at (h // G, h % G) again

    return attn_scores


def kv_heads_tiled_in_mix(healthy: StageFunction) -> StageFunction:
    def attn_mix(engine: Engine, state: StepState) -> None:
        """Mix the values of head h % K by the pattern of head h."""
        patterns, num_kv_heads = state.attn_pattern, engine.model_config.num_kv_heads
        state.attn_pattern = tuple(
            pattern.transpose(1, 2).flatten(0, 1).unflatten(0, (-1, num_kv_heads)).permute(1, 2, 0, 3, 4).contiguous()
            for pattern in patterns
        )  # [K, S, G, Tq, C] each, head g K + k at (k, g)
        healthy(engine, state)
        state.attn_pattern = patterns
        state.z = state.z.unflatten(1, (num_kv_heads, -1)).transpose(1, 2).flatten(1, 2)  # [T, H, D], head h at h

    return attn_mix
