"""Attention of kept queries taken apart: q . k, scaled, masked, softmax, mix. For panels; all are copies.

Every number comes out of the program's own stages (the mask is left out by running the same stage without it), so what
a panel shows cannot disagree with what a step computes.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from miniinfer.engine.engine import Engine
from miniinfer.engine.groups import make_group
from miniinfer.engine.lookup import check_cached
from miniinfer.engine.ops import rotate
from miniinfer.engine.scheduler import Scheduled
from miniinfer.engine.sequence import Sequence
from miniinfer.engine.stages.attention import query_key_products
from miniinfer.engine.state import StepState


@dataclass(frozen=True)
class AttentionParts:
    """n rows of all heads in one layer.

    products: q . k; scaled: divided by the root of D; both [H, n, keys]. masked: -inf where a row must not look;
    pattern: weights after softmax; both [H, n, C]. z: the values mixed by them, [n, H, D].
    """

    products: Tensor
    scaled: Tensor
    masked: Tensor
    pattern: Tensor
    z: Tensor


@torch.inference_mode()
def attention_parts(
    engine: Engine, seq: Sequence, layer: int, q: Tensor, start: int, keys: int | None = None
) -> AttentionParts:
    """From kept queries q [n, H, D] (after RoPE) of positions start.. and the cached keys and values; C = start + n.

    keys: over how many positions the two pictures before the mask go, by default C.
    """
    entry = Scheduled(seq, len(q), start)
    keys = entry.stop if keys is None else keys
    check_cached(seq, start, max(entry.stop, keys))
    group = make_group([entry], 0, 1, engine.device)
    state = StepState(
        q=q.to(engine.device, engine.weights.dtype),
        block_tables=(torch.tensor(seq.block_table, device=engine.device),),
    )
    stages = {stage.name: stage for stage in engine.program if stage.layer == layer}

    def run(name: str) -> None:
        state.stage = stages[name]
        state.stage.fn(engine, state)

    state.groups = (dataclasses.replace(group, context_lens=(keys,), hidden=None),)
    run("attn_scores")
    [scaled] = state.attn_scores
    [products] = query_key_products(engine, state)
    state.groups = (group,)
    run("attn_scores")
    run("attn_pattern")
    run("attn_mix")
    [masked], [pattern] = state.attn_scores, state.attn_pattern
    by_head = [_by_head(part) for part in (products, scaled, masked, pattern)]
    return AttentionParts(by_head[0], by_head[1], by_head[2], by_head[3], state.z)


@torch.inference_mode()
def head_outputs(engine: Engine, layer: int, z: Tensor) -> Tensor:
    """What each head of one row adds to the residual stream: z [H, D] -> [H, E]; their sum is that row's attn_out."""
    z = z.to(engine.device, engine.weights.dtype)
    alone = torch.zeros((len(z), *z.shape), dtype=z.dtype, device=z.device)  # [H, H, D], one head a row
    heads = torch.arange(len(z), device=z.device)
    alone[heads, heads] = z
    return engine.weights.layers[layer].attn_out(alone.flatten(1))


@torch.inference_mode()
def unrotate(engine: Engine, x: Tensor, positions: Tensor) -> Tensor:
    """What x [T, heads, D] was before RoPE turned it at these positions [T]: turned back by the same angles."""
    cos, sin = engine.rope.at(positions.to(engine.device))
    return rotate(x.to(engine.device, engine.weights.dtype), cos, -sin)


@torch.inference_mode()
def rotated(engine: Engine, x: Tensor, positions: Tensor) -> Tensor:
    """x [T, heads, D] turned by RoPE at these positions [T], as the stage `rope` turns it."""
    cos, sin = engine.rope.at(positions.to(engine.device))
    return rotate(x.to(engine.device, engine.weights.dtype), cos, sin)


def _by_head(part: Tensor) -> Tensor:
    """[K, 1, G, n, C] -> [H, n, C]."""
    return part[:, 0].flatten(0, 1)
