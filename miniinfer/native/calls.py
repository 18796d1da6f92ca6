"""Attention of one group in the core: one row of each sequence, or many rows of one. And what the core cannot do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from miniinfer.engine.groups import AttnGroup

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.state import StepState
    from miniinfer.native.backend import NativeBackend


def backend_of(engine: Engine) -> NativeBackend:
    return engine.backend  # type: ignore[return-value]


def library_of(engine: Engine, rows: int) -> Any:
    """The core's functions for the engine's fields, in the form for so many rows."""
    return backend_of(engine).stages(engine.weights).for_rows(rows)


def rows_of_heads(x: Tensor) -> bool:
    """True if each row of x [T, heads, D] is one piece of memory; from row to row anything may lie between."""
    return x.stride(2) == 1 and x.stride(1) == x.shape[2]


def known_groups(state: StepState) -> bool:
    """True unless rows form a rectangle of several sequences, as in a static batch."""
    return all(group.num_seqs == 1 or group.num_rows == 1 for group in state.groups)


def known_mask(state: StepState) -> bool:
    """True unless somebody has taken the mask off rows that stand before others ("Break it" does)."""
    return all(group.num_rows == 1 or group.hidden is not None for group in state.groups)


def group_scores(engine: Engine, state: StepState, group: AttnGroup, blocks: Tensor) -> Tensor:
    """[K, S, G, Tq, C]: one row of each sequence, or many rows of one."""
    backend, kv_heads = backend_of(engine), engine.kv_cache.num_kv_heads
    q, seqs, rows, context = state.q[group.first_row :], group.num_seqs, group.num_rows, group.context_len
    heads = q.shape[1]
    scores = q.new_empty((kv_heads, seqs, heads // kv_heads, rows, context))
    cache, tables = backend.cache(engine.kv_cache, state.layer), blocks.data_ptr()
    library = library_of(engine, rows)
    if rows == 1:
        library.attn_scores(
            cache, q.data_ptr(), q.stride(0), heads, tables, len(blocks) // seqs, backend.lengths(group), seqs, context,
            scores.data_ptr(),
        )  # fmt: skip
    else:
        library.attn_scores_rows(cache, q.data_ptr(), q.stride(0), heads, tables, rows, context, scores.data_ptr())
    return scores


def softmax(engine: Engine, scores: Tensor) -> Tensor:
    scores = scores.contiguous()
    pattern = torch.empty_like(scores)
    context = scores.shape[-1]
    rows = scores.numel() // context
    library_of(engine, scores.shape[3]).attn_pattern(scores.data_ptr(), rows, context, pattern.data_ptr())
    return pattern


def mix_group(
    engine: Engine, state: StepState, group: AttnGroup, blocks: Tensor, pattern: Tensor, z: Tensor
) -> None:
    """The rows of a group into z [rows, H, D]."""
    backend, heads, seqs, context = backend_of(engine), z.shape[1], group.num_seqs, pattern.shape[-1]
    cache, tables, weights = backend.cache(engine.kv_cache, state.layer), blocks.data_ptr(), pattern.data_ptr()
    library = library_of(engine, group.num_rows)
    if group.num_rows == 1:
        library.attn_mix(
            cache, weights, heads, tables, len(blocks) // seqs, backend.lengths(group), seqs, context, z.data_ptr()
        )
    else:
        library.attn_mix_rows(cache, weights, heads, tables, group.num_rows, context, z.data_ptr())
