"""The model's matrices as the core reads them: where torch, or the file, has put them. Nothing is copied.

oneDNN's order and that of torch's 4-bit kernel are theirs to change, so a layout is recognised by its size and then
tried: one product with two rows must give what torch gives. A matrix that does not pass stays with torch.
"""

from __future__ import annotations

import ctypes
import dataclasses
import sys
from collections.abc import Iterator

import torch
from torch import Tensor

from miniinfer.engine.linear import Linear
from miniinfer.engine.packed import GROUP, Int4Linear
from miniinfer.engine.weights import Weights
from miniinfer.native.library import BFLOAT16_PANELS, FLOAT32_PANELS, INT4_PANELS, MOST_ROWS, Q8_ROWS, Library, Matrix

WIDTHS = (64, 48, 32, 16)  # rows of a panel, as oneDNN chooses them by the processor
# Of the largest number. Torch rounds more where numbers are packed; in bfloat16 both round the result to 8 bits.
TOLERANCE = {FLOAT32_PANELS: 1e-4, BFLOAT16_PANELS: 0.01, INT4_PANELS: 0.05, Q8_ROWS: 0.01}


class NativeLinear(Linear):
    """The product of `inner` in the core for as many rows as it `takes`, by `inner` itself for more: x [T, in] ->
    [T, out], both in `dtype`. `address`: of the core's struct Matrix."""

    __slots__ = ("_library", "_matrix", "_most_rows", "_stored_bytes", "address", "inner")

    def __init__(self, inner: Linear, matrix: Matrix, library: Library, stored_bytes: int) -> None:
        self.out_features, self.in_features, self.dtype = inner.out_features, inner.in_features, inner.dtype
        self.inner, self._matrix, self._stored_bytes = inner, matrix, stored_bytes
        self._library = library.of(bfloat16=self.dtype == torch.bfloat16)
        self.address = ctypes.addressof(matrix)
        self._most_rows = sys.maxsize if library.takes_many(self.address) else MOST_ROWS

    def takes(self, rows: int) -> bool:
        """True if the core computes a product with so many rows."""
        return 0 < rows <= self._most_rows

    def __call__(self, x: Tensor) -> Tensor:
        if not self.takes(x.shape[0]):
            return self.inner(x)
        x = x.contiguous()
        y = x.new_empty((x.shape[0], self.out_features))
        self._library.linear(self.address, x.data_ptr(), x.shape[0], y.data_ptr())
        return y

    def to_dense(self) -> Tensor:
        return self.inner.to_dense()

    @property
    def prepacked(self) -> bool:
        return self.inner.prepacked

    @property
    def storage(self) -> str:
        return "Q8_0" if self._matrix.layout == Q8_ROWS else self.inner.storage

    @property
    def nbytes(self) -> int:
        """What one product of few rows reads."""
        return self._stored_bytes


def native_weights(weights: Weights, library: Library) -> Weights:
    """The same weights with every matrix that the core can read given to it; the others stay as they are."""
    embedding = weights.embedding
    q8_rows = embedding.stored if weights.tied and embedding.storage == "Q8_0" else None
    layers = tuple(
        dataclasses.replace(
            layer,
            qkv=native_linear(layer.qkv, library), attn_out=native_linear(layer.attn_out, library),
            gate_up=native_linear(layer.gate_up, library), down=native_linear(layer.down, library),
        )
        for layer in weights.layers
    )  # fmt: skip
    return dataclasses.replace(weights, layers=layers, unembed=native_linear(weights.unembed, library, q8_rows))


def native_linear(linear: Linear, library: Library, q8_rows: Tensor | None = None) -> Linear:
    """The product in the core, or `linear` itself if the core cannot read the matrix. q8_rows: the same matrix as rows
    of Q8_0 blocks, uint8 [out, bytes of a row], if there are such."""
    for matrix, stored_bytes in _layouts(linear, q8_rows):
        native = NativeLinear(linear, matrix, library, stored_bytes)
        if _agrees(native, TOLERANCE[matrix.layout]):
            library.large_pages(matrix.numbers, stored_bytes)
            return native
    return linear


def _layouts(linear: Linear, q8_rows: Tensor | None) -> Iterator[tuple[Matrix, int]]:
    """Each way in which this matrix might lie in memory, with the bytes that it takes there."""
    out, columns = linear.out_features, linear.in_features
    if q8_rows is not None and not linear.prepacked:
        yield Matrix(Q8_ROWS, WIDTHS[0], out, columns, columns, q8_rows.data_ptr(), None), q8_rows.nbytes
    if isinstance(linear, Int4Linear):
        q, scales = linear.q, linear.scales
        for width in (64, 32):
            if out % width == 0 and columns % GROUP == 0:
                matrix = Matrix(INT4_PANELS, width, out, columns, columns, q.data_ptr(), scales.data_ptr())
                yield matrix, linear.nbytes
    packed = linear.packed_memory()
    if packed is not None:
        address, num_bytes = packed
        layout = BFLOAT16_PANELS if linear.dtype == torch.bfloat16 else FLOAT32_PANELS
        for width in WIDTHS:
            for stored in dict.fromkeys(-(-columns // padding) * padding for padding in (1, 2, 16, 32, 64)):
                if num_bytes == -(-out // width) * width * stored * linear.dtype.itemsize:
                    yield Matrix(layout, width, out, columns, stored, address, None), num_bytes


def _agrees(native: NativeLinear, tolerance: float) -> bool:
    """True if two random rows give what `inner` gives."""
    x = torch.randn(2, native.in_features, generator=torch.Generator().manual_seed(0)).to(native.dtype)
    wanted = native.inner(x)
    return bool((native(x) - wanted).abs().max() <= tolerance * wanted.abs().max())
