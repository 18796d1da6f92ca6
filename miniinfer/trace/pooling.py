"""Attention maps made small: u8 on a square-root scale, and a prompt's patterns max-pooled to at most 24 x 24 cells.

Max, not mean: a single strong cell is what the eye looks for, and a mean over 20 x 20 positions would hide it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from miniinfer.trace.records import ByteArray, FloatArray, PooledMaps

MAX_CELLS = 24


def to_u8(probs: FloatArray) -> ByteArray:
    """round(255 sqrt p): the square root keeps weights of 1 % visible; 4e-6 is the smallest that is not 0."""
    return np.rint(np.sqrt(probs) * 255).astype(np.uint8)


def cell_size(num_positions: int) -> int:
    """Positions that one cell covers, so that at most MAX_CELLS cells cover all."""
    return -(-num_positions // MAX_CELLS)


class PooledPrompt:
    """Grows a prompt's pooled maps row block by row block, whatever the chunks of the prefill were."""

    def __init__(self, num_layers: int, num_heads: int, num_positions: int) -> None:
        self.cell = cell_size(num_positions)
        cells = -(-num_positions // self.cell)
        self._maps = np.zeros((num_layers, num_heads, cells, cells), np.uint8)

    def add(self, layer: int, start: int, pooled: FloatArray) -> None:
        """pooled [H, n, cells]: rows from position `start` on, already pooled in cells along both sides."""
        block = to_u8(pooled)
        first = start // self.cell
        target = self._maps[layer, :, first : first + block.shape[1], : block.shape[2]]
        np.maximum(target, block, out=target)

    def result(self) -> PooledMaps:
        maps = self._maps.copy()
        maps.setflags(write=False)
        return PooledMaps(maps, self.cell)


def pool_head(blocks: Iterable[ByteArray | list[ByteArray]], num_positions: int, cell: int) -> ByteArray:
    """One head's rows from position 0 on, in blocks of any height (a row may end at its own position) -> [B, B] u8."""
    cells = -(-num_positions // cell)
    pooled = np.zeros((cells, cells), np.uint8)
    at = 0
    for block in blocks:
        for row in block:
            pieces = np.maximum.reduceat(row[: at + 1], np.arange(0, at + 1, cell))
            target = pooled[at // cell, : len(pieces)]
            np.maximum(target, pieces, out=target)
            at += 1
    return pooled


def pool_rows(rows: Sequence[ByteArray], num_positions: int) -> PooledMaps:
    """The pooled maps of full rows, row i as [L, H, i + 1] u8."""
    layers, heads = rows[0].shape[:2]
    cell = cell_size(num_positions)
    cells = -(-num_positions // cell)
    maps = np.zeros((layers, heads, cells, cells), np.uint8)
    for i, row in enumerate(rows):
        starts = np.arange(0, i + 1, cell)
        pooled = np.maximum.reduceat(row, starts, axis=2)
        target = maps[:, :, i // cell, : len(starts)]
        np.maximum(target, pooled, out=target)
    return PooledMaps(maps, cell)
