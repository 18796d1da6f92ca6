"""The numbers of the KV cache: one tensor [L, 2, K, N, P, D], zeros at first. Keys are stored after RoPE.

Heads stand before blocks so that a gather for S sequences lands in memory as [K, S, C, D], which one batched product
reads without another copy. Zeros matter: a batch of unequal lengths reads past the end of the short ones, and there a
weight of 0 times whatever lies in memory must be 0.
"""

from __future__ import annotations

import torch
from torch import Tensor

from miniinfer.config import ModelConfig
from miniinfer.engine.machine_faults import check_room, machine_fault
from miniinfer.errors import DeviceLostError, NoMemoryError, OutOfBlocksError

KEYS, VALUES = 0, 1
KEPT_PLACES = 64  # a step has one for each attention group


class KVCache:
    def __init__(self, config: ModelConfig, block_size: int, dtype: torch.dtype, device: torch.device) -> None:
        shape = (config.num_layers, 2, config.num_kv_heads, 0, block_size, config.head_dim)
        self.data = torch.zeros(shape, dtype=dtype, device=device)
        self.block_size = block_size
        self.num_kv_heads = config.num_kv_heads
        self.head_dim = config.head_dim
        self._rooms = [self.data.new_empty(0, block_size * config.head_dim) for _ in (KEYS, VALUES)]
        self._known_places: dict[int, tuple[Tensor, Tensor]] = {}  # by the id of the block tables that stand in it
        self.position_bytes = config.kv_bytes_per_token(dtype.itemsize)  # of one position, all layers, K and V

    @property
    def num_blocks(self) -> int:
        return self.data.shape[3]

    @property
    def block_bytes(self) -> int:
        return self.position_bytes * self.block_size

    @property
    def storage_bytes(self) -> int:
        """Read from the storage itself, not worked out."""
        return self.data.untyped_storage().nbytes()

    def grow_to(self, num_blocks: int) -> None:
        """Make room for this many blocks; those that exist keep their numbers and contents."""
        if num_blocks == self.num_blocks:
            return
        shape = list(self.data.shape)
        shape[3] = num_blocks
        try:
            if self.data.device.type == "cpu":
                check_room(num_blocks * self.block_bytes)
            grown = torch.zeros(shape, dtype=self.data.dtype, device=self.data.device)
        except (RuntimeError, MemoryError, NoMemoryError) as error:
            if isinstance(fault := machine_fault(error), DeviceLostError):
                raise fault from error
            raise OutOfBlocksError(
                f"There is no memory for a KV cache of {num_blocks} blocks ({num_blocks * self.block_bytes:,} bytes): "
                "release a run, or use a shorter prompt."
            ) from error
        grown[:, :, :, : self.num_blocks] = self.data
        self.data = grown
        self._known_places.clear()

    def copy_block(self, source: int, target: int, num_positions: int) -> None:
        """Copy the first positions of a block, in all layers; the rest of the target becomes zeros."""
        self.data[:, :, :, target, :num_positions] = self.data[:, :, :, source, :num_positions]
        self.data[:, :, :, target, num_positions:] = 0

    def write(self, layer: int, slot_mapping: Tensor, new_blocks: Tensor, k: Tensor, v: Tensor) -> None:
        """Store k, v [T, K, D] in their slots [T] (block * P + place in the block), after zeroing the new blocks."""
        if len(new_blocks):
            self.data[layer].index_fill_(2, new_blocks, 0.0)
        for which, rows in ((KEYS, k), (VALUES, v)):
            slots = self.data[layer, which].view(self.num_kv_heads, -1, self.head_dim)  # [K, N * P, D]
            slots.index_copy_(1, slot_mapping, rows.transpose(0, 1))

    def gather(self, layer: int, which: int, blocks: Tensor, num_seqs: int, context_len: int) -> Tensor:
        """KEYS or VALUES of S sequences in order of position: [K * S, C, D], good until the next gather of the same
        kind.

        blocks: the block tables [S * B], one after another. Each gather writes over the one before it: memory that is
        new each time has to be mapped page by page, which costs more than the copying (at 8 x 256 positions twice the
        whole attention).
        """
        rows = self.data[layer, which].view(self.num_kv_heads * self.num_blocks, -1)  # [K * N, P * D]
        places = self._places(blocks)
        gathered = torch.index_select(rows, 0, places, out=self._room(which, len(places)))
        return gathered.view(self.num_kv_heads * num_seqs, -1, self.head_dim)[:, :context_len]

    def _places(self, blocks: Tensor) -> Tensor:
        """The rows [K * S * B] of a layer's keys or values that hold these blocks. All layers of a step ask for the
        same ones, so the newest answers are kept until the pool grows."""
        known = self._known_places.get(id(blocks))
        if known is not None and known[0] is blocks:
            return known[1]
        if len(self._known_places) >= KEPT_PLACES:
            self._known_places.clear()
        first = torch.arange(self.num_kv_heads, device=blocks.device)[:, None] * self.num_blocks
        places = (first + blocks).flatten()
        self._known_places[id(blocks)] = blocks, places
        return places

    def _room(self, which: int, num_rows: int) -> Tensor:
        """Where a gather writes: [num_rows, P * D]."""
        if self._rooms[which].shape[0] < num_rows:
            with torch.inference_mode(False):  # so that it can be written in and out of inference mode
                self._rooms[which] = self.data.new_empty(num_rows, self.block_size * self.head_dim)
        return self._rooms[which][:num_rows]
