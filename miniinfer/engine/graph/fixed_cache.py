"""The KV cache as a kept stage reads it: through block tables of a fixed size, into rooms that never move."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from miniinfer.engine.kv_cache import KEYS, VALUES, KVCache


class FixedCache(KVCache):
    """The numbers of a cache where they lie now, for S sequences with B blocks each. Good until the cache moves."""

    def __init__(self, cache: KVCache, num_tables: int, table_size: int) -> None:
        self.data = cache.data  # [L, 2, K, N, P, D]
        self.block_size, self.num_kv_heads, self.head_dim = cache.block_size, cache.num_kv_heads, cache.head_dim
        self.position_bytes = cache.position_bytes
        self.table_size = table_size  # B
        num_rows = self.num_kv_heads * num_tables * table_size  # K * S * B
        self.places = torch.zeros(num_rows, dtype=torch.int64, device=self.data.device)
        self._rooms = [self.data.new_empty(num_rows, self.block_size * self.head_dim) for _ in (KEYS, VALUES)]

    def load(self, tables: Sequence[list[int]]) -> None:
        """Read through these tables from now on. Each is filled up with its own first block, as in joined_tables."""
        rows = [table + table[:1] * (self.table_size - len(table)) for table in tables]
        blocks = torch.tensor(rows, device=self.data.device).flatten()  # [S * B]
        first = torch.arange(self.num_kv_heads, device=self.data.device)[:, None] * self.num_blocks
        self.places.copy_((first + blocks).flatten())

    def clear(self, slots: Sequence[int]) -> None:
        """Zeros in these slots of all layers: a masked key still meets its value as 0 x value."""
        if slots:
            at = torch.tensor(slots, device=self.data.device)
            self.data.flatten(3, 4).index_fill_(3, at, 0.0)  # [L, 2, K, N * P, D], the same memory

    def _places(self, blocks: Tensor) -> Tensor:
        return self.places
