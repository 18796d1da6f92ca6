"""The one type that every weight matrix goes through: y = x W^T.

On the CPU a weight is *prepacked*: oneDNN stores it in the blocked order its kernels read, once, when the model is
loaded. A product with one row then runs near the speed of the memory (the unembed product of SmolLM2-135M: 2.0 ms
against 7.0 ms plain). The packed copy is the only one that stays. Elsewhere, and wherever oneDNN is missing, the plain
product serves; it is also the reference that the prepacked one is tested against. `packed.py` has the forms that keep
a file's quantised blocks: other subclasses, the same call.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from miniinfer.engine import onednn

PACKABLE = (torch.float32, torch.bfloat16)


def can_prepack(weight: Tensor) -> bool:
    """True if oneDNN can hold this matrix in its own order: a CPU matrix of float32 or bfloat16."""
    if weight.device.type != "cpu" or weight.dtype not in PACKABLE or not torch.backends.mkldnn.is_available():
        return False
    # Some processors lack the bfloat16 instructions; oneDNN says so itself.
    return weight.dtype == torch.float32 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


class Linear:
    """A product with a fixed matrix: x [T, in] -> [T, out], x and result in `dtype`.

    weight: [out, in]. Its own memory is not referenced after packing, so the caller may drop it.
    """

    __slots__ = ("_memory", "_packed", "_plain", "dtype", "in_features", "out_features")

    def __init__(self, weight: Tensor, *, prepack: bool = True) -> None:
        if weight.ndim != 2:
            raise ValueError(f"A weight matrix has two dimensions, not the shape {tuple(weight.shape)}.")
        self.out_features, self.in_features = weight.shape
        self.dtype = weight.dtype
        self._memory: Tensor | None = None  # what the matrix lies in, if that is not torch's own
        self._packed: Tensor | None = None
        self._plain: Tensor | None = None
        if prepack and can_prepack(weight):
            self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)
        else:
            self._plain = weight

    @classmethod
    def over(cls, memory: Tensor, shape: tuple[int, int], dtype: torch.dtype, described: bytes | None) -> Linear:
        """The product with a matrix [out, in] that lies in `memory` (uint8 [bytes]): prepacked and so described
        (`description`), or in plain order if None. Nothing is copied. Raises RuntimeError."""
        linear = cls.__new__(cls)
        linear.out_features, linear.in_features = shape
        linear.dtype, linear._memory, linear._packed, linear._plain = dtype, memory, None, None
        if described is None:
            linear._plain = memory.view(dtype).view(shape)
        else:
            linear._packed = onednn.over(memory, shape, dtype, described)
        return linear

    @property
    def description(self) -> bytes | None:
        """How a prepacked matrix lies, for `over`; None if it is not prepacked. Ask `onednn.can_describe` before."""
        return None if self._packed is None else onednn.description(self._packed)

    @classmethod
    def plain(cls, weight: Tensor) -> Linear:
        """The same product without packing: the reference, and the only form on devices other than the CPU."""
        return cls(weight, prepack=False)

    def __call__(self, x: Tensor) -> Tensor:
        if self._packed is None:
            assert self._plain is not None
            return F.linear(x, self._plain)
        if x.numel() == 0:  # oneDNN has no product of no rows
            return x.new_zeros((*x.shape[:-1], self.out_features))
        return torch.ops.mkldnn._linear_pointwise(x, self._packed, None, "none", [], "")

    def to_dense(self) -> Tensor:
        """The matrix [out, in] in plain order: a new copy if it was packed."""
        if self._packed is not None:
            return self._packed.to_dense()
        assert self._plain is not None
        return self._plain

    def packed_memory(self) -> tuple[int, int] | None:
        """Address and bytes of a prepacked matrix, in oneDNN's own order; None if it is not prepacked, or torch does
        not say where it lies."""
        if self._packed is None or not hasattr(torch.ops.mkldnn, "data_ptr"):
            return None
        return torch.ops.mkldnn.data_ptr(self._packed), torch.ops.mkldnn._nbytes(self._packed)

    @property
    def prepacked(self) -> bool:
        """True if the matrix lies in oneDNN's own order."""
        return self._packed is not None

    @property
    def storage(self) -> str:
        """How the numbers are kept in memory."""
        return str(self.dtype).removeprefix("torch.")

    @property
    def nbytes(self) -> int:
        """out x in x itemsize: the bytes that one product reads."""
        return self.out_features * self.in_features * self.dtype.itemsize
