"""The numbers of the KV cache: one tensor [L, 2, K, N, P, D], zeros at first. Keys are stored after RoPE.

Heads stand before blocks so that a gather for S sequences lands in memory as [K, S, C, D], which one batched product
reads without another copy. Zeros matter: a batch of unequal lengths reads past the end of the short ones, and there a
weight of 0 times whatever lies in memory must be 0.
"""

from __future__ import annotations

import torch
from torch import Tensor

from miniinfer.config import ModelConfig
from miniinfer.errors import OutOfBlocksError

KEYS, VALUES = 0, 1


class KVCache:
    def __init__(self, config: ModelConfig, block_size: int, dtype: torch.dtype, device: torch.device) -> None:
        shape = (config.num_layers, 2, config.num_kv_heads, 0, block_size, config.head_dim)
        self.data = torch.zeros(shape, dtype=dtype, device=device)
        self.block_size = block_size
        self.num_kv_heads = config.num_kv_heads
        self.head_dim = config.head_dim
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
            grown = torch.zeros(shape, dtype=self.data.dtype, device=self.data.device)
        except (RuntimeError, MemoryError) as error:
            raise OutOfBlocksError(
                f"There is no memory for a KV cache of {num_blocks} blocks ({num_blocks * self.block_bytes:,} bytes): "
                "release a run, or use a shorter prompt."
            ) from error
        grown[:, :, :, : self.num_blocks] = self.data
        self.data = grown

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
        """KEYS or VALUES of S sequences in order of position: a new tensor [K * S, C, D].

        blocks: the block tables [S * B], one after another.
        """
        gathered = self.data[layer, which].index_select(1, blocks)  # [K, S * B, P, D]
        return gathered.view(self.num_kv_heads * num_seqs, -1, self.head_dim)[:, :context_len]
