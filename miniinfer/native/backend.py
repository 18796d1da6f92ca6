"""The core as an engine uses it: its program, its weights, and the addresses that its calls need."""

from __future__ import annotations

import ctypes
import weakref
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from miniinfer.engine.backend import largest_in_cells
from miniinfer.engine.groups import AttnGroup
from miniinfer.engine.kv_cache import KVCache
from miniinfer.engine.stage import Stage
from miniinfer.engine.torch_threads import one_thread, usual_threads
from miniinfer.engine.weights import Weights
from miniinfer.native.decode_plan import LayerTable, lengths_of
from miniinfer.native.library import MOST_ROWS, Cache, Library, Stages
from miniinfer.native.products import native_weights
from miniinfer.native.stages import native_program


class NativeBackend:
    """An engine.backend.Backend. Shared by all engines of a process."""

    name = "native"
    # A padded position is a few numbers to write here and no key to read; a second group costs the laid-out step.
    group_cost = 4096

    def __init__(self, library: Library) -> None:
        self.library = library
        library.set_threads(usual_threads())
        self._weights: dict[int, tuple[weakref.ref[Weights], Weights]] = {}  # by the id of torch's
        self._tables: dict[int, LayerTable] = {}  # by the id of the core's
        self._caches: weakref.WeakKeyDictionary[KVCache, tuple[int, int, Any, list[int]]] = weakref.WeakKeyDictionary()
        self._lengths: tuple[AttnGroup, Any, int] | None = None

    def program(self, program: tuple[Stage, ...]) -> tuple[Stage, ...]:
        return native_program(program)

    def weights(self, weights: Weights) -> Weights:
        """Made once for each model: its engines share it."""
        known = self._weights.get(id(weights))
        if known is None or known[0]() is not weights:
            number, ours = id(weights), native_weights(weights, self.library)
            known = self._weights[number] = weakref.ref(weights, lambda _gone: self._forget(number)), ours
            self._tables[id(ours)] = LayerTable(ours)
        return known[1]

    def threads(self, rows: int) -> AbstractContextManager[object]:
        """Torch has one thread in a step that decodes. What is left to it there is small, the vocabulary of the sampler
        at most; its second thread and the core's would wait for work on the same processor, each in the other's way."""
        return one_thread() if rows <= MOST_ROWS else nullcontext()

    def _forget(self, number: int) -> None:
        known = self._weights.pop(number, None)
        if known is not None:
            self._tables.pop(id(known[1]), None)

    def largest_in_cells(self, rows: Tensor, start: int, cell: int) -> Tensor:
        if rows.device.type != "cpu" or rows.dtype not in (torch.float32, torch.bfloat16) or rows.stride(2) != 1:
            return largest_in_cells(rows, start, cell)
        heads, count, context = rows.shape
        pooled = torch.empty(heads, (start + count - 1) // cell - start // cell + 1, -(-context // cell))
        self.library.of(bfloat16=rows.dtype == torch.bfloat16).largest_in_cells(
            rows.data_ptr(), rows.stride(0), rows.stride(1), heads, count, context, start, cell, pooled.data_ptr()
        )
        return pooled

    def stages(self, weights: Weights) -> Stages:
        """The core's functions for fields of the type that these weights have."""
        return self.library.of(bfloat16=weights.dtype == torch.bfloat16)

    def layer_table(self, weights: Weights) -> LayerTable | None:
        """The addresses of the weights that this backend has given out; None if it has not, or torch has a matrix."""
        table = self._tables.get(id(weights))
        return table if table is not None and table.complete else None

    def cache(self, kv_cache: KVCache, layer: int) -> int:
        """The address of the struct Cache of a layer; all are made anew when the pool has moved."""
        address = kv_cache.data.data_ptr()
        known = self._caches.get(kv_cache)
        if known is None or known[0] != address or known[1] != kv_cache.num_blocks:
            step = kv_cache.data.stride(0) * kv_cache.data.itemsize
            sizes = (kv_cache.num_blocks, kv_cache.block_size, kv_cache.num_kv_heads, kv_cache.head_dim)
            structs = [Cache(address + i * step, *sizes) for i in range(kv_cache.data.shape[0])]
            known = address, kv_cache.num_blocks, structs, [ctypes.addressof(struct) for struct in structs]
            self._caches[kv_cache] = known
        return known[3][layer]

    def lengths(self, group: AttnGroup) -> int:
        """The address of [S] int64: the keys that each sequence of the group sees. All layers ask for them."""
        known = self._lengths
        if known is None or known[0] is not group:
            array = lengths_of(group)
            known = self._lengths = group, array, ctypes.addressof(array)
        return known[2]
