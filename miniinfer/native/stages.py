"""The stages of a layer, one call of the core each. They read and rebind the same fields as the torch stages.

A step that decodes a few sequences writes into memory that was laid out for it (decode_plan.py). Any other step, a
prefill too, takes new memory stage by stage. A product goes to the core if that is the faster one for so many rows
(`NativeLinear.takes`); what the core cannot compute at all a stage hands over to its torch twin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor

from miniinfer.engine.linear import Linear
from miniinfer.engine.placement import place_tokens
from miniinfer.engine.stage import Stage, StageFunction
from miniinfer.engine.stages import attention, inputs, mlp, output
from miniinfer.native import calls
from miniinfer.native.decode_plan import plan_of
from miniinfer.native.products import NativeLinear

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.state import StepState

TWINS: dict[str, tuple[StageFunction, StageFunction]] = {}  # by stage: of torch, of the core


def twin_of(torch_stage: StageFunction) -> Callable[[StageFunction], StageFunction]:
    """The function does what that torch stage does, so what is said about that one is true of it."""

    def keep(fn: StageFunction) -> StageFunction:
        fn.__doc__ = torch_stage.__doc__
        TWINS[fn.__name__] = torch_stage, fn
        return fn

    return keep


def native_program(program: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """The same program with every torch stage that has a twin in the core replaced by it; others stay."""
    twins = dict(TWINS.values())
    return tuple(replace(stage, fn=twins.get(stage.fn, stage.fn)) for stage in program)


def _norm(engine: Engine, x: Tensor, weight: Tensor) -> Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    rows, size = x.shape
    calls.library_of(engine, rows).rms_norm(
        x.data_ptr(), weight.data_ptr(), engine.model_config.norm_eps, rows, size, y.data_ptr()
    )
    return y


@twin_of(inputs.embed)
def embed(engine: Engine, state: StepState) -> None:
    embedding, ids = engine.weights.embedding, state.input_ids
    if embedding.stored is None or embedding.storage != "Q8_0" or ids.dtype != torch.int64:
        return inputs.embed(engine, state)
    ids, size = ids.contiguous(), engine.model_config.hidden_size
    x = torch.empty((len(ids), size), dtype=engine.weights.dtype)
    calls.library_of(engine, len(ids)).embed(
        embedding.stored.data_ptr(), len(embedding.stored), ids.data_ptr(), len(ids), size, x.data_ptr()
    )
    state.resid_pre = x  # [T, E]
    return None


@twin_of(attention.attn_norm)
def attn_norm(engine: Engine, state: StepState) -> None:
    plan, layer = plan_of(engine, state), state.layer
    if plan is not None and (layer == 0 or state.resid_post is plan.resid_post[layer - 1]):
        plan.library.step_attn_norm(plan.address, layer)
        state.resid_pre, state.attn_norm_out = plan.resid_pre[layer], plan.attn_norm_out[layer]
        return None
    if layer > 0:
        state.resid_pre = state.resid_post  # this layer goes on where the one before it ended
    state.attn_norm_out = _norm(engine, state.resid_pre, engine.weights.layers[state.layer].attn_norm)  # [T, E]
    return None


@twin_of(attention.qkv_proj)
def qkv_proj(engine: Engine, state: StepState) -> None:
    plan, layer = plan_of(engine, state), state.layer
    if plan is None or state.attn_norm_out is not plan.attn_norm_out[layer]:
        return attention.qkv_proj(engine, state)  # whose product may well be the core's
    plan.library.step_qkv_proj(plan.address, layer)
    state.q, state.k, state.v = plan.q_before[layer], plan.k_before[layer], plan.v[layer]
    return None


@twin_of(attention.rope)
def rope(engine: Engine, state: StepState) -> None:
    q, k, plan, layer = state.q, state.k, plan_of(engine, state), state.layer
    if plan is not None and q is plan.q_before[layer] and k is plan.k_before[layer]:
        plan.library.step_rope(plan.address, layer)
        state.q, state.k = plan.q[layer], plan.k[layer]
        return None
    if not calls.rows_of_heads(q) or not calls.rows_of_heads(k):
        return attention.rope(engine, state)
    (rows, num_heads, head_dim), num_kv_heads = q.shape, k.shape[1]
    turned = q.new_empty((rows, num_heads + num_kv_heads, head_dim))
    calls.library_of(engine, rows).rope(
        q.data_ptr(), q.stride(0), k.data_ptr(), k.stride(0), state.rope_cos.data_ptr(), state.rope_sin.data_ptr(),
        rows, num_heads, num_kv_heads, head_dim, turned.data_ptr(),
    )  # fmt: skip
    state.q, state.k = turned.split((num_heads, num_kv_heads), dim=1)  # [T, H, D], [T, K, D]
    return None


@twin_of(attention.write_kv)
def write_kv(engine: Engine, state: StepState) -> None:
    k, v, plan, layer = state.k, state.v, plan_of(engine, state), state.layer
    if plan is not None and k is plan.k[layer] and v is plan.v[layer]:
        place_tokens(engine, state)
        plan.place(engine, state)
        plan.library.step_write_kv(plan.address, layer)
        return None
    if not calls.rows_of_heads(k) or not calls.rows_of_heads(v):
        return attention.write_kv(engine, state)
    place_tokens(engine, state)
    slots, new = state.slot_mapping, state.new_blocks
    backend = calls.backend_of(engine)
    calls.library_of(engine, len(slots)).write_kv(
        backend.cache(engine.kv_cache, state.layer), k.data_ptr(), k.stride(0), v.data_ptr(), v.stride(0),
        slots.data_ptr(), len(slots), new.data_ptr(), len(new),
    )  # fmt: skip
    return None


@twin_of(attention.attn_scores)
def attn_scores(engine: Engine, state: StepState) -> None:
    q, plan, layer = state.q, plan_of(engine, state), state.layer
    if plan is not None and q is plan.q[layer] and plan.is_placed(engine, state):
        scores = q.new_empty(plan.scores_shape)
        plan.library.step_attn_scores(plan.address, layer, scores.data_ptr())
        state.attn_scores = (scores,)  # [K, S, G, 1, C]
        return None
    if not calls.known_groups(state) or not calls.known_mask(state) or not calls.rows_of_heads(q):
        return attention.attn_scores(engine, state)
    state.attn_scores = tuple(
        calls.group_scores(engine, state, group, blocks)
        for group, blocks in zip(state.groups, state.block_tables, strict=True)
    )
    return None


@twin_of(attention.attn_pattern)
def attn_pattern(engine: Engine, state: StepState) -> None:
    plan, scores = plan_of(engine, state), state.attn_scores[0]
    if plan is not None and scores.shape == plan.scores_shape and scores.is_contiguous():
        pattern = torch.empty_like(scores)
        plan.library.step_attn_pattern(plan.address, scores.data_ptr(), pattern.data_ptr())
        state.attn_pattern = (pattern,)  # [K, S, G, 1, C]
        return
    state.attn_pattern = tuple(calls.softmax(engine, scores) for scores in state.attn_scores)  # [K, S, G, Tq, C]


@twin_of(attention.attn_mix)
def attn_mix(engine: Engine, state: StepState) -> None:
    if not calls.known_groups(state):
        return attention.attn_mix(engine, state)
    plan, layer = plan_of(engine, state), state.layer
    if plan is not None and state.attn_pattern[0].shape == plan.scores_shape and plan.is_placed(engine, state):
        plan.library.step_attn_mix(plan.address, layer, state.attn_pattern[0].contiguous().data_ptr())
        state.z = plan.z[layer]  # [T, H, D]
        return None
    config = engine.model_config
    rows = sum(group.num_seqs * group.num_rows for group in state.groups)
    z = state.attn_pattern[0].new_empty((rows, config.num_heads, config.head_dim))
    for group, blocks, pattern in zip(state.groups, state.block_tables, state.attn_pattern, strict=True):
        calls.mix_group(engine, state, group, blocks, pattern.contiguous(), z[group.first_row :])
    state.z = z  # [T, H, D]
    return None


@twin_of(attention.attn_out)
def attn_out(engine: Engine, state: StepState) -> None:
    plan, layer, z = plan_of(engine, state), state.layer, state.z
    if plan is not None and z is plan.z[layer] and state.resid_pre is plan.resid_pre[layer]:
        plan.library.step_attn_out(plan.address, layer)
        state.attn_out, state.resid_mid = plan.attn_out[layer], plan.resid_mid[layer]
        return None
    linear = engine.weights.layers[layer].attn_out
    if not _in_core(linear, z):
        return attention.attn_out(engine, state)
    state.attn_out, state.resid_mid = _linear_add(engine, linear, z, state.resid_pre)  # [T, E] each
    return None


@twin_of(mlp.mlp_norm)
def mlp_norm(engine: Engine, state: StepState) -> None:
    plan, layer = plan_of(engine, state), state.layer
    if plan is not None and state.resid_mid is plan.resid_mid[layer]:
        plan.library.step_mlp_norm(plan.address, layer)
        state.mlp_norm_out = plan.mlp_norm_out[layer]
        return None
    state.mlp_norm_out = _norm(engine, state.resid_mid, engine.weights.layers[state.layer].mlp_norm)  # [T, E]
    return None


@twin_of(mlp.mlp_hidden)
def mlp_hidden(engine: Engine, state: StepState) -> None:
    plan, layer, x = plan_of(engine, state), state.layer, state.mlp_norm_out
    if plan is not None and x is plan.mlp_norm_out[layer]:
        plan.library.step_mlp_hidden(plan.address, layer)
        state.mlp_hidden = plan.mlp_hidden[layer]
        return None
    linear = engine.weights.layers[layer].gate_up
    rows, size = x.shape[0], linear.out_features // 2
    hidden = x.new_empty((rows, size))
    if _in_core(linear, x):
        x = x.contiguous()
        library = calls.library_of(engine, rows)
        library.mlp_hidden(linear.address, x.data_ptr(), rows, hidden.data_ptr())
    else:
        both = linear(x)  # [T, 2F]
        calls.library_of(engine, rows).gate(both.data_ptr(), rows, size, hidden.data_ptr())
    state.mlp_hidden = hidden  # [T, F]
    return None


@twin_of(mlp.mlp_out)
def mlp_out(engine: Engine, state: StepState) -> None:
    plan, layer, hidden = plan_of(engine, state), state.layer, state.mlp_hidden
    if plan is not None and hidden is plan.mlp_hidden[layer] and state.resid_mid is plan.resid_mid[layer]:
        plan.library.step_mlp_out(plan.address, layer)
        state.mlp_out, state.resid_post = plan.mlp_out[layer], plan.resid_post[layer]
        return None
    linear = engine.weights.layers[layer].down
    if not _in_core(linear, hidden):
        return mlp.mlp_out(engine, state)
    state.mlp_out, state.resid_post = _linear_add(engine, linear, hidden, state.resid_mid)  # [T, E] each
    return None


@twin_of(output.final_norm)
def final_norm(engine: Engine, state: StepState) -> None:
    state.final_norm_out = _norm(engine, state.resid_post, engine.weights.final_norm)  # [T, E]
    return None


def _linear_add(engine: Engine, linear: NativeLinear, x: Tensor, resid: Tensor) -> tuple[Tensor, Tensor]:
    """The product and its sum with the residual stream."""
    x, resid = x.contiguous(), resid.contiguous()
    product, total = torch.empty_like(resid), torch.empty_like(resid)
    calls.library_of(engine, len(x)).linear_add(
        linear.address, x.data_ptr(), resid.data_ptr(), x.shape[0], product.data_ptr(), total.data_ptr()
    )
    return product, total


def _in_core(linear: Linear, x: Tensor) -> TypeGuard[NativeLinear]:
    """True if the core computes this product."""
    return type(linear) is NativeLinear and linear.takes(len(x))
