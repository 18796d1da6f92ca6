"""One head of a live run looked into, as plain numpy: its row, a window of its maps, its mix, RoPE's rotation.

The functions touch tensors, so they are called in the engine's thread; what they give needs no torch. Nothing runs the
model: kept queries and the cache give all of it back. H heads, C context, D head dim: see config.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.records import FloatArray

if TYPE_CHECKING:
    import torch

    from miniinfer.engine.lookup_attention import AttentionParts

MAP_NAMES = ("products", "scaled", "masked", "pattern")
BLOCK = 256  # rows taken apart at a time


@dataclass(frozen=True)
class HeadRow:
    """One row of one head, position C - 1: each array [C]. keys_norm, values_norm: L2 norms of the cached vectors.

    products: q . k; scaled: divided by the root of D; pattern: the weights. z [D]: the values mixed; all_z [H, D]: of
    every head of this layer; outputs [H]: L2 norm of what each head adds to the residual stream; attn_out: of them all.
    """

    layer: int
    head: int
    position: int
    products: FloatArray
    scaled: FloatArray
    pattern: FloatArray
    values: FloatArray  # [C, D], those of this head's K/V head
    all_z: FloatArray
    outputs: FloatArray
    attn_out: float

    @property
    def z(self) -> FloatArray:
        return self.all_z[self.head]

    @property
    def exps(self) -> FloatArray:
        """[C] exp(score - largest score): softmax divides them by their sum. In float32, as softmax works."""
        result: FloatArray = np.exp(self.scaled - self.scaled.max())
        return result

    @property
    def mixed(self) -> FloatArray:
        """[C, D]: each position's weight x value; they sum to z."""
        result: FloatArray = self.pattern[:, None] * self.values
        return result

    @property
    def shares(self) -> FloatArray:
        """[C]: how much of z's length each position's part makes: its component along z over |z|. They sum to 1."""
        square = float(self.z @ self.z)
        result: FloatArray = (self.mixed @ self.z) / (square or 1.0)
        return result


@dataclass(frozen=True)
class HeadMaps:
    """Rows row_start .. and keys key_start .. of one head: maps by name (MAP_NAMES), each [n, m] float32.

    With `cell` above 1 every cell covers cell x cell positions and holds the largest number in it. masked is -inf
    where a row must not look, and so is a cell that has nothing else.
    """

    row_start: int
    key_start: int
    cell: int
    maps: dict[str, FloatArray]


def head_row(run: LiveRun, layer: int, head: int, position: int) -> HeadRow:
    """The row of one position. Raises BadInputError if its query was dropped."""
    from miniinfer.engine.lookup import kv_at
    from miniinfer.engine.lookup_attention import head_outputs

    parts = _parts(run, layer, position, position + 1)
    values = kv_at(run.engine, run.seq, layer, 0, position + 1)[1][head // run.info.model.group_size]
    z = parts.z[0]
    outputs = head_outputs(run.engine, layer, z).float()
    return HeadRow(
        layer, head, position, _numpy(parts.products[head, 0]), _numpy(parts.scaled[head, 0]),
        _numpy(parts.pattern[head, 0]), _numpy(values), _numpy(z), _numpy(outputs.norm(dim=1)),
        float(outputs.sum(0).norm()),
    )


def head_maps(run: LiveRun, layer: int, head: int, row_start: int, row_stop: int, key_start: int) -> HeadMaps:
    """A window: rows row_start .. row_stop - 1 over keys key_start .. row_stop - 1."""
    parts = _parts(run, layer, row_start, row_stop)
    maps = {name: _numpy(getattr(parts, name)[head, :, key_start:]) for name in MAP_NAMES}
    return HeadMaps(row_start, key_start, 1, maps)


def pooled_head_maps(
    run: LiveRun, layer: int, head: int, length: int, cells: int, *, skip_first: bool = False
) -> HeadMaps:
    """The first `length` positions, max-pooled to at most cells x cells. skip_first: key 0 counts for no cell."""
    cell = -(-length // cells)
    size = -(-length // cell)
    maps = {name: np.full((size, size), -np.inf, np.float32) for name in MAP_NAMES}
    block = max(cell, BLOCK // cell * cell)
    for start in range(0, length, block):
        stop = min(start + block, length)
        parts = _parts(run, layer, start, stop, keys=length)
        for name in MAP_NAMES:
            rows = getattr(parts, name)[head].float().cpu().numpy().copy()
            if skip_first:
                rows[:, 0] = 0 if name == "pattern" else -np.inf
            by_key = np.maximum.reduceat(rows, np.arange(0, rows.shape[1], cell), axis=1)
            by_row = np.maximum.reduceat(by_key, np.arange(0, stop - start, cell), axis=0)
            low = start // cell
            maps[name][low : low + len(by_row), : by_row.shape[1]] = by_row
    maps["pattern"][np.isneginf(maps["pattern"])] = 0
    return HeadMaps(0, 0, cell, maps)


def _parts(run: LiveRun, layer: int, start: int, stop: int, keys: int | None = None) -> AttentionParts:
    from miniinfer.engine.lookup_attention import attention_parts

    q = torch_of(run.queries(layer, start, stop))
    return attention_parts(run.engine, run.seq, layer, q, start, keys)


def torch_of(array: FloatArray) -> torch.Tensor:
    """A tensor with numbers of its own."""
    import torch

    return torch.from_numpy(np.array(array))


def _numpy(tensor: torch.Tensor) -> FloatArray:
    array = np.array(tensor.float().cpu().numpy(), np.float32)
    array.setflags(write=False)
    return array
