"""How GGUF files store numbers: each type packs a row into blocks of so many elements and so many bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class TensorType:
    """One storage type. A block holds `block_elements` numbers of one row in `block_bytes` bytes."""

    type_id: int  # as the file spells it
    name: str
    block_elements: int
    block_bytes: int

    def row_bytes(self, elements: int) -> int:
        """Bytes of a row of that many elements, which must be a multiple of block_elements."""
        return elements // self.block_elements * self.block_bytes


SUPPORTED = {
    kind.type_id: kind
    for kind in (
        TensorType(0, "F32", 1, 4),
        TensorType(1, "F16", 1, 2),
        TensorType(2, "Q4_0", 32, 18),
        TensorType(3, "Q4_1", 32, 20),
        TensorType(6, "Q5_0", 32, 22),
        TensorType(7, "Q5_1", 32, 24),
        TensorType(8, "Q8_0", 32, 34),
        TensorType(12, "Q4_K", 256, 144),
        TensorType(13, "Q5_K", 256, 176),
        TensorType(14, "Q6_K", 256, 210),
        TensorType(30, "BF16", 1, 2),
    )
}


def type_name(type_id: int) -> str:
    """The name of any type that GGUF knows, also of those that MiniInfer cannot read."""
    if type_id in SUPPORTED:
        return SUPPORTED[type_id].name
    from gguf.constants import GGMLQuantizationType

    try:
        return str(GGMLQuantizationType(type_id).name)
    except ValueError:
        return f"unknown type {type_id}"


def dequantise(rows: NDArray[np.uint8], kind: TensorType) -> NDArray[np.float32]:
    """Stored rows [n, bytes per row] -> float32 [n, elements per row]. Each row depends on its own bytes alone."""
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    if len(rows) == 0:  # which the library cannot reshape
        return np.empty((0, rows.shape[1] // kind.block_bytes * kind.block_elements), np.float32)
    numbers: NDArray[np.float32] = dequantize(rows, GGMLQuantizationType(kind.type_id))
    return numbers
