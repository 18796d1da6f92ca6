"""Products with matrices that stay smaller than their activations: 4-bit blocks, and float16. CPU only.

`Int4Linear` takes the blocks of 32 numbers that GGUF files of 4-bit types are made of: number = scale * q + low, with
q from 0 to 15. torch's kernel wants number = scale * (q - 8) + zero, so zero = low + 8 * scale, and the q are taken
over unchanged. What is lost: scale and zero become bfloat16 (files keep 11 bits of a scale, this keeps 8), and so
do the rows that go in and come out; sums are float32. `Float16Linear` rounds each number to 11 bits and keeps rows in
float32: for matrices that have no such blocks.

Activations are float32 between products. docs/performance.md has the measurements behind these choices.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from miniinfer.engine.linear import Linear

GROUP = 32  # numbers that share one scale
ROWS = 16  # the kernel works on so many rows of the matrix at once
CHUNK = 256  # rows converted at a time: the kernel's packer wants 4 bytes for each 4-bit number
LARGEST_FLOAT16 = 65504.0


class Blocks(NamedTuple):
    """A matrix [out, in] in 4-bit blocks: number = scale * q + low, all three in the order of the rows."""

    q: Tensor  # [out, in] uint8, 0 to 15
    scale: Tensor  # [out, in / 32] float32
    low: Tensor  # [out, in / 32] float32

    @classmethod
    def joined(cls, parts: list[Blocks]) -> Blocks:
        """The rows of several matrices below each other."""
        return parts[0] if len(parts) == 1 else cls(*(torch.cat(tensors) for tensors in zip(*parts, strict=True)))

    def difference(self) -> tuple[float, float]:
        """What bfloat16 scales change: the sum of the squared differences over all numbers, and that of the squared
        numbers themselves. Worked out from the sums of q and q^2 of each block, not number by number."""
        sums = []
        for rows in self.q.split(CHUNK):
            q = rows.view(len(rows), -1, GROUP).float()  # [rows, in / 32, 32]
            sums.append(torch.stack((q.sum(-1), torch.linalg.vecdot(q, q))))
        first, second = torch.cat(sums, dim=1)  # [out, in / 32] each

        def squares(scale: Tensor, low: Tensor) -> float:
            parts = scale.square() * second + 2 * scale * low * first + GROUP * low.square()
            return float(parts.double().sum())

        scale = self.scale - self.scale.bfloat16().float()
        zero = self.low + 8 * self.scale
        return squares(scale, zero - zero.bfloat16().float() - 8 * scale), squares(self.scale, self.low)


class Int4Linear(Linear):
    """A product with 4-bit blocks: x [T, in] float32 -> [T, out] float32, rounded to bfloat16 on both sides."""

    __slots__ = ("q", "scales")

    def __init__(self, blocks: Blocks) -> None:
        self.out_features, self.in_features = blocks.q.shape
        self.dtype = torch.float32
        convert = torch.ops.aten._convert_weight_to_int4pack_for_cpu
        self.q = torch.cat([convert(rows.to(torch.int32), 1) for rows in blocks.q.split(CHUNK)])  # two q in a byte
        pairs = torch.stack((blocks.scale, blocks.low + 8 * blocks.scale), dim=-1)  # [out, in / 32, 2]
        self.scales = pairs.transpose(0, 1).to(torch.bfloat16, memory_format=torch.contiguous_format)

    @classmethod
    def of(cls, q: Tensor, scales: Tensor, in_features: int) -> Int4Linear:
        """With `q` and `scales` of another one of as many columns, wherever they lie. Nothing is copied."""
        linear = cls.__new__(cls)
        linear.out_features, linear.in_features, linear.dtype = scales.shape[1], in_features, torch.float32
        linear.q, linear.scales = q, scales
        return linear

    @classmethod
    def takes(cls, rows: int) -> bool:
        """True if the kernel has a form for a matrix of that many rows."""
        return rows % ROWS == 0

    def __call__(self, x: Tensor) -> Tensor:
        product = torch.ops.aten._weight_int4pack_mm_for_cpu(x.bfloat16(), self.q, GROUP, self.scales)
        return product.float()

    def packed_memory(self) -> None:
        return None

    def to_dense(self) -> Tensor:
        """The matrix [out, in] that the kernel computes with, in float32: a new copy. Slow."""
        each = torch.eye(self.in_features)
        return torch.ops.aten._weight_int4pack_mm_for_cpu(each, self.q, GROUP, self.scales.float()).T

    @property
    def prepacked(self) -> bool:
        return False

    @property
    def storage(self) -> str:
        return "4-bit blocks"

    @property
    def nbytes(self) -> int:
        """Half a byte a number and four bytes a block: what one product reads."""
        return self.q.nbytes + self.scales.nbytes


class Float16Linear(Linear):
    """A product with a matrix kept in float16: x [T, in] float32 -> [T, out] float32. weight: [out, in] float32."""

    __slots__ = ("_half",)

    def __init__(self, weight: Tensor) -> None:
        self.out_features, self.in_features = weight.shape
        self.dtype = torch.float32
        self._half = torch.ops.quantized.linear_prepack_fp16(weight, None)

    @property
    def half(self) -> Tensor:
        """The matrix [out, in] in float16: a new copy. `Float16Linear(half.float())` is this product again."""
        return self.to_dense().half()

    @classmethod
    def takes(cls, weight: Tensor) -> bool:
        """True if this machine has the kernel and every number fits."""
        there = torch.backends.quantized.engine in ("fbgemm", "x86")
        return there and bool(weight.abs().max() <= LARGEST_FLOAT16)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.ops.quantized.linear_dynamic_fp16(x, self._half)

    def packed_memory(self) -> None:
        return None

    def to_dense(self) -> Tensor:
        """The matrix [out, in] in float32: a new copy."""
        return torch.ops.quantized.linear_unpack_fp16(self._half)[0]

    @property
    def prepacked(self) -> bool:
        return False

    @property
    def storage(self) -> str:
        return "float16"

    @property
    def nbytes(self) -> int:
        return 2 * self.out_features * self.in_features
