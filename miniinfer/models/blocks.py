"""GGUF's 4-bit types as the blocks that the packed product takes: number = scale * q + low, in groups of 32."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from miniinfer.engine.packed import Blocks
from miniinfer.models.tensor_types import TensorType

Bytes = NDArray[np.uint8]
Parts = tuple[Bytes, NDArray[np.float32], NDArray[np.float32]]  # q [n, 32], scale [n], low [n]


def read_blocks(rows: Bytes, kind: TensorType) -> Blocks:
    """Stored rows [out, bytes per row] of a type in `READERS`, as blocks: exactly the numbers of the file."""
    q, scale, low = READERS[kind.name](rows.reshape(-1, kind.block_bytes))
    return Blocks(*(torch.from_numpy(part.reshape(len(rows), -1)) for part in (q, scale, low)))


def _q4_0(blocks: Bytes) -> Parts:
    """A scale, then 16 bytes: low halves are numbers 0 to 15, high halves 16 to 31; q is counted from 8."""
    scale = _halves(blocks[:, :2])[:, 0]
    return _nibbles(blocks[:, 2:]), scale, -8 * scale


def _q4_1(blocks: Bytes) -> Parts:
    """A scale and the lowest number, then 16 bytes as above."""
    scale, low = _halves(blocks[:, :4]).T
    return _nibbles(blocks[:, 4:]), scale, low


def _q4_k(blocks: Bytes) -> Parts:
    """Eight groups in a block: a scale and a lowest number for the block, 6 bits of each for every group of it."""
    from gguf.quants import Q4_K

    scale, low = _halves(blocks[:, :4]).T  # [n] each
    scales, lows = Q4_K.get_scale_min(blocks[:, 4:16])  # [n, 8] each, 0 to 63
    q = np.concatenate([_nibbles(part) for part in np.split(blocks[:, 16:], 4, axis=1)], axis=1)  # 4 times 64 numbers
    return q, (scale[:, None] * scales.astype(np.float32)), -(low[:, None] * lows.astype(np.float32))


READERS: dict[str, Callable[[Bytes], Parts]] = {"Q4_0": _q4_0, "Q4_1": _q4_1, "Q4_K": _q4_k}


def _halves(stored: Bytes) -> NDArray[np.float32]:
    """float16 numbers, [n, 2 m] bytes -> [n, m]."""
    return np.ascontiguousarray(stored).view(np.float16).astype(np.float32)


def _nibbles(stored: Bytes) -> Bytes:
    """[n, m] bytes -> [n, 2 m]: all low halves, then all high halves."""
    return np.concatenate([stored & 15, stored >> 4], axis=1)
