"""Looking back without running the model: rows of attention, keys and values, logits. For panels; all are copies.

Bit-equal to what the step saw if that step computed a single row; within rounding otherwise, for a product over more
rows may add in another order.
"""

from __future__ import annotations

import torch
from torch import Tensor

from miniinfer.engine.engine import Engine
from miniinfer.engine.groups import make_group
from miniinfer.engine.kv_cache import KEYS, VALUES
from miniinfer.engine.scheduler import Scheduled
from miniinfer.engine.sequence import Sequence
from miniinfer.engine.state import StepState
from miniinfer.errors import BadInputError


def pattern_rows(state: StepState, s: int) -> Tensor:
    """All rows of scheduled sequence s in the pattern that stands in the state: [H, n, C], C its own context length."""
    for group, pattern in zip(state.groups, state.attn_pattern, strict=True):
        member = s - group.first_seq
        if 0 <= member < group.num_seqs:
            rows = pattern[:, member].flatten(0, 1)  # [K, G, Tq, C] -> [H, Tq, C]
            return rows[:, :, : group.context_lens[member]]
    raise BadInputError(f"This step has {len(state.scheduled)} sequences with a pattern; there is no number {s}.")


def pattern_row(state: StepState, s: int) -> Tensor:
    """The newest row of scheduled sequence s in the pattern that stands in the state: [H, C]."""
    return pattern_rows(state, s)[:, -1]


@torch.inference_mode()
def attention_rows(engine: Engine, seq: Sequence, layer: int, q: Tensor, start: int) -> Tensor:
    """The pattern of n rows, from kept queries q [n, H, D] (after RoPE) of positions start.. and the cached keys.

    [H, n, C] with C = start + n, 0 where a row must not look. It runs the program's own attention stages.
    """
    entry = Scheduled(seq, len(q), start)
    check_cached(seq, start, entry.stop)
    table = seq.block_table[: -(-entry.stop // engine.config.block_size)]
    state = StepState(
        q=q.to(engine.device, engine.weights.dtype),
        groups=(make_group([entry], 0, 1, engine.device),),
        block_tables=(torch.tensor(table, device=engine.device),),
    )
    for stage in engine.program:
        if stage.layer == layer and stage.name in ("attn_scores", "attn_pattern"):
            state.stage = stage
            stage.fn(engine, state)
    return pattern_rows(state, 0)


@torch.inference_mode()
def kv_at(engine: Engine, seq: Sequence, layer: int, start: int, stop: int) -> tuple[Tensor, Tensor]:
    """Cached keys (after RoPE) and values of positions start .. stop - 1: two tensors [K, n, D]."""
    check_cached(seq, start, stop)
    blocks = torch.tensor(seq.block_table, device=engine.device)
    keys = engine.kv_cache.gather(layer, KEYS, blocks, 1, stop)
    values = engine.kv_cache.gather(layer, VALUES, blocks, 1, stop)
    return keys[:, start:].clone(), values[:, start:].clone()


@torch.inference_mode()
def logits_of(engine: Engine, final_norm_out: Tensor) -> Tensor:
    """Raw logits [n, V] float32 on the CPU, from kept rows of final_norm_out [n, E]."""
    rows = final_norm_out.to(engine.device, engine.weights.dtype)
    return engine.weights.unembed(rows).float().cpu()


def check_cached(seq: Sequence, start: int, stop: int) -> None:
    """Raise BadInputError unless positions start .. stop - 1 of the sequence lie in the cache."""
    if not 0 <= start < stop <= seq.num_computed_tokens:
        raise BadInputError(
            f"Positions {start} to {stop - 1} of sequence {seq.seq_id!r} are not in the cache; "
            f"it holds {seq.num_computed_tokens}."
        )
