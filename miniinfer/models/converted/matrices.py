"""A product's matrix as pieces of memory with a record that says what they are, and the same product made from them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from miniinfer.engine import onednn
from miniinfer.engine.linear import Linear
from miniinfer.engine.packed import Float16Linear, Int4Linear
from miniinfer.models.converted.layout import Bytes, UnusableCopyError

PREPACKED, PLAIN, INT4, FLOAT16 = "prepacked", "plain", "int4", "float16"
DTYPES = {
    "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16,
    "int32": torch.int32, "uint8": torch.uint8,
}  # fmt: skip


@dataclass(frozen=True)
class Pieces:
    """A matrix taken apart. record: JSON values; arrays: its memory, bytes [n] each, not copied where they lie in one
    piece already; they are good as long as the product lives."""

    record: dict[str, Any]
    arrays: tuple[Bytes, ...]


def can_keep(linear: Linear) -> bool:
    """True if its product can be made from bytes again."""
    return not linear.prepacked or onednn.can_describe()


def take_apart(linear: Linear) -> Pieces:
    """Of a product that `can_keep`."""
    record: dict[str, Any] = {"shape": [linear.out_features, linear.in_features], "dtype": _name(linear.dtype)}
    if isinstance(linear, Int4Linear):
        return _tensors(record | {"kind": INT4}, linear.q, linear.scales)
    if isinstance(linear, Float16Linear):
        return _tensors(record | {"kind": FLOAT16}, linear.half)
    memory, described = linear.packed_memory(), linear.description
    if memory is None or described is None:
        return _tensors(record | {"kind": PLAIN}, linear.to_dense().contiguous())
    return Pieces(record | {"kind": PREPACKED, "description": described.hex()}, (_at(*memory),))


def put_together(record: Mapping[str, Any], arrays: Iterator[Bytes]) -> Linear:
    """The product again, over the arrays, which stay in memory as long as it does. Takes as many of them as it has.
    Raises UnusableCopyError."""
    try:
        out, columns = record["shape"]
        shape, dtype, kind = (int(out), int(columns)), DTYPES[record["dtype"]], record["kind"]
        if kind == PREPACKED:
            return Linear.over(tensor_over(next(arrays)), shape, dtype, bytes.fromhex(record["description"]))
        if kind == PLAIN:
            return Linear.over(tensor_over(next(arrays)), shape, dtype, None)
        tensors = [tensor_over(next(arrays)).view(DTYPES[name]).view(size) for name, size in record["tensors"]]
        if kind == INT4:
            q, scales = tensors
            return Int4Linear.of(q, scales, columns)
        if kind == FLOAT16:
            return Float16Linear(tensors[0].float())
        raise UnusableCopyError(f"It has a matrix of the kind {kind!r}.")
    except (KeyError, ValueError, TypeError, StopIteration, RuntimeError) as error:
        raise UnusableCopyError(f"A matrix cannot be made from it ({error}).") from error


def tensor_over(part: Bytes) -> Tensor:
    """uint8 [n] over the same memory, which lives as long as the tensor. By way of ctypes: numpy would say that the
    memory must not be written, of which torch warns."""
    array = (ctypes.c_ubyte * part.nbytes).from_address(part.ctypes.data)
    array.owner = part  # type: ignore[attr-defined]
    return torch.frombuffer(array, dtype=torch.uint8)


def _tensors(record: dict[str, Any], *tensors: Tensor) -> Pieces:
    record["tensors"] = [[_name(tensor.dtype), list(tensor.shape)] for tensor in tensors]
    return Pieces(record, tuple(tensor.flatten().view(torch.uint8).numpy() for tensor in tensors))


def _at(address: int, num_bytes: int) -> Bytes:
    return np.ctypeslib.as_array((ctypes.c_ubyte * num_bytes).from_address(address))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
