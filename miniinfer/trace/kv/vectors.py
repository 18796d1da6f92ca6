"""What lies in one layer's cache for one KV head, and how the newest query reads it: the storage's numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from miniinfer.errors import BadInputError
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.records import FloatArray


@dataclass(frozen=True)
class CachedVectors:
    """keys (after RoPE), values: [C, D] float32 of one layer and KV head, positions 0 .. C - 1, as the storage has them
    (bfloat16 ones widened, which loses nothing). block_of: where each position lies, as (physical block, slot)."""

    layer: int
    kv_head: int
    keys: FloatArray
    values: FloatArray
    block_of: tuple[tuple[int, int], ...]

    @property
    def context_len(self) -> int:
        return len(self.keys)


@dataclass(frozen=True)
class Reading:
    """How the query at `position` reads the cache through one KV head.

    heads: the G query heads that share it. q: [G, D] after RoPE, computed in its step and thrown away by the engine.
    scores: [G, C] dot products with the keys, divided by the root of D, C = position + 1. weights: [G, C] the step's
    own attention rows, softmax of the scores.
    """

    position: int
    heads: tuple[int, ...]
    q: FloatArray
    scores: FloatArray
    weights: FloatArray


def query_heads(num_heads: int, num_kv_heads: int, kv_head: int) -> tuple[int, ...]:
    """The query heads that read KV head `kv_head`: a run of neighbours, num_heads / num_kv_heads of them."""
    size = num_heads // num_kv_heads
    return tuple(range(kv_head * size, (kv_head + 1) * size))


def cached_vectors(run: LiveRun, layer: int, kv_head: int, context_len: int) -> CachedVectors:
    """Read from the engine's storage through the run's block table. Raises BadInputError."""
    from miniinfer.engine.lookup import kv_at

    model = run.info.model
    if not (0 <= layer < model.num_layers and 0 <= kv_head < model.num_kv_heads):
        raise BadInputError(
            f"This model has layers 0 to {model.num_layers - 1} and KV heads 0 to {model.num_kv_heads - 1}."
        )
    keys, values = (part[kv_head].float().cpu().numpy() for part in kv_at(run.engine, run.seq, layer, 0, context_len))
    size, table = run.engine.config.block_size, run.seq.block_table
    places = tuple((table[p // size], p % size) for p in range(context_len))
    return CachedVectors(layer, kv_head, keys, values, places)


def reading_of(run: LiveRun, cached: CachedVectors) -> Reading:
    """By the newest position of `cached`. Raises BadInputError where its query was dropped for the trace budget."""
    model, position = run.info.model, cached.context_len - 1
    heads = query_heads(model.num_heads, model.num_kv_heads, cached.kv_head)
    q = np.array(run.queries_at(position)[cached.layer, list(heads)])
    scores = (q @ cached.keys.T) * np.float32(model.head_dim**-0.5)
    return Reading(position, heads, q, scores, run.weights_at(cached.layer, position)[list(heads)])
