"""The memory of one decode step, laid out before its first layer, so that a stage is a call with three arguments.

Every field has a part of its own for each layer, and each part is written once: a tensor that a stage has bound never
changes, as in the torch program. The plan belongs to one state. A copy of the state (a fork in the middle of a step), a
stage that runs a second time, or a field that somebody else has bound do not fit it, and the stage then works on
whatever stands in the state, into new memory (cost/stages.py).
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from torch import Tensor

from miniinfer.engine.groups import AttnGroup
from miniinfer.native.library import MOST_ROWS, Layer, Step
from miniinfer.native.products import NativeLinear

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.state import StepState
    from miniinfer.engine.weights import Weights
    from miniinfer.native.backend import NativeBackend


def lengths_of(group: AttnGroup) -> ctypes.Array[ctypes.c_int64]:
    """How many keys each sequence of the group sees: [S]."""
    lens = group.context_lens if group.hidden is not None else (group.context_len,) * group.num_seqs
    return (ctypes.c_int64 * len(lens))(*lens)


class LayerTable:
    """The weights of all layers as the core reads them. None in place of the table if a matrix is torch's."""

    def __init__(self, weights: Weights) -> None:
        rows = []
        for layer in weights.layers:
            matrices = (layer.qkv, layer.attn_out, layer.gate_up, layer.down)
            qkv, attn_out, gate_up, down = (m.address if type(m) is NativeLinear else None for m in matrices)
            rows.append(Layer(layer.attn_norm.data_ptr(), qkv, attn_out, layer.mlp_norm.data_ptr(), gate_up, down))
        self.complete = all(type(m) is NativeLinear for la in weights.layers for m in (
            la.qkv, la.attn_out, la.gate_up, la.down))  # fmt: skip
        self._rows = (Layer * len(rows))(*rows)
        self.address = ctypes.addressof(self._rows)


class DecodePlan:
    """What `struct Step` points to, and the same memory as tensors: a list of one for each layer."""

    def __init__(self, engine: Engine, state: StepState, backend: NativeBackend, table: LayerTable) -> None:
        config, group = engine.model_config, state.groups[0]
        x = state.resid_pre.contiguous()
        rows, layers = x.shape[0], config.num_layers
        heads, kv_heads, size = config.num_heads, config.num_kv_heads, config.head_dim
        self.owner, self.done = id(state), 0
        self.library = backend.stages(engine.weights)
        self.scores_shape = (kv_heads, group.num_seqs, heads // kv_heads, 1, group.context_len)
        self._slots: Tensor | None = None
        self._cache: Tensor | None = None
        wide = (layers, rows, config.hidden_size)
        fields = {
            name: x.new_empty(wide)
            for name in ("attn_norm_out", "attn_out", "resid_mid", "mlp_norm_out", "mlp_out", "resid_post")
        }
        fields["qkv"] = x.new_empty((layers, rows, heads + 2 * kv_heads, size))
        fields["turned"] = x.new_empty((layers, rows, heads + kv_heads, size))
        fields["z"] = x.new_empty((layers, rows, heads, size))
        fields["mlp_hidden"] = x.new_empty((layers, rows, config.intermediate_size))
        self._kept = (fields, x, state.rope_cos, state.rope_sin, group)
        self.attn_norm_out, self.attn_out, self.resid_mid, self.mlp_norm_out, self.mlp_out, self.resid_post = (
            fields[name].unbind()
            for name in ("attn_norm_out", "attn_out", "resid_mid", "mlp_norm_out", "mlp_out", "resid_post")
        )
        self.resid_pre = (state.resid_pre, *self.resid_post)
        q, k, v = fields["qkv"].split((heads, kv_heads, kv_heads), dim=2)
        self.q_before, self.k_before, self.v = q.unbind(), k.unbind(), v.unbind()
        q, k = fields["turned"].split((heads, kv_heads), dim=2)
        self.q, self.k = q.unbind(), k.unbind()
        self.z, self.mlp_hidden = fields["z"].unbind(), fields["mlp_hidden"].unbind()
        self._lens = lengths_of(group)
        self.step = Step(
            table.address, layers, rows, config.hidden_size, config.intermediate_size, heads, kv_heads, size,
            group.context_len, 0, config.norm_eps, state.rope_cos.data_ptr(), state.rope_sin.data_ptr(),
            lens=ctypes.addressof(self._lens), embedded=x.data_ptr(),
            **{name: tensor.data_ptr() for name, tensor in fields.items()},
        )  # fmt: skip
        self.address = ctypes.addressof(self.step)

    def place(self, engine: Engine, state: StepState) -> None:
        """Follow the slots, the tables and the pool to where they are now."""
        data = engine.kv_cache.data
        if state.slot_mapping is self._slots and data is self._cache:
            return
        step, cache = self.step, engine.kv_cache
        [tables] = state.block_tables
        step.slots, step.new_blocks = state.slot_mapping.data_ptr(), state.new_blocks.data_ptr()
        step.num_new, step.tables, step.table_size = len(state.new_blocks), tables.data_ptr(), len(tables) // step.rows
        step.cache.layer, step.cache.num_blocks = data.data_ptr(), cache.num_blocks
        step.cache.block_size, step.cache.num_kv_heads = cache.block_size, cache.num_kv_heads
        step.cache.head_dim, step.cache_stride = cache.head_dim, data.stride(0)
        self._slots, self._cache = state.slot_mapping, data
        self._placed = (state.slot_mapping, state.new_blocks, tables)

    def is_placed(self, engine: Engine, state: StepState) -> bool:
        """True if attention reads where write_kv has written."""
        return state.slot_mapping is self._slots and engine.kv_cache.data is self._cache


def plan_of(engine: Engine, state: StepState) -> DecodePlan | None:
    """The plan of this state, made at its first layer; None for a step that is not decode, or not wholly the core's."""
    plan = state.plan
    if plan is None and state.layer == 0:
        backend: NativeBackend = engine.backend  # type: ignore[assignment]
        groups, x = state.groups, state.resid_pre
        table = backend.layer_table(engine.weights)
        one_row_each = len(groups) == 1 and groups[0].num_rows == 1 and groups[0].num_seqs == x.shape[0]
        if table is not None and one_row_each and x.shape[0] <= MOST_ROWS and x.dtype == engine.weights.dtype:
            plan = state.plan = DecodePlan(engine, state, backend, table)
    # Once for each stage of the state that it was made for.
    if plan is None or plan.owner != id(state) or state.pc < plan.done:
        return None
    plan.done = state.pc + 1
    return plan
