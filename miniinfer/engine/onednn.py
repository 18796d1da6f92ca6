"""oneDNN's prepacked matrices as bytes: what order one lies in, and one made over bytes that lie somewhere already.

torch's compiler needs the same when it loads weights that it has packed before, so torch has it: a C function that
makes a tensor over memory (`aoti_torch_create_tensor_from_blob_v2`), and an operation that gives oneDNN's own
description of a layout. Neither is promised to anybody. Where one of them is missing, `can_describe` is false, and
matrices are packed anew each time.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from ctypes import byref, c_char_p, c_int32, c_int64, c_void_p, py_object
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

CODES = {torch.float32: "float32", torch.bfloat16: "bfloat16"}  # as its functions call them
CREATE, DESCRIBE = "aoti_torch_create_tensor_from_blob_v2", "_get_mkldnn_serialized_md"


@functools.cache
def _create() -> Callable[..., int] | None:
    """torch's C function, or None if this torch has it not, or not all that it is needed with."""
    name = {"linux": "libtorch_cpu.so", "darwin": "libtorch_cpu.dylib"}.get(sys.platform)
    if name is None or not all(hasattr(torch.ops.mkldnn, op) for op in (DESCRIBE, "data_ptr", "_nbytes")):
        return None
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).with_name("lib") / name))
        function = library[CREATE]
        codes = {dtype: library[f"aoti_torch_dtype_{kind}"]() for dtype, kind in CODES.items()}
        cpu, layout = library["aoti_torch_device_type_cpu"](), library["aoti_torch_layout__mkldnn"]()
        torch._C._aoti.alloc_tensor_by_stealing_from_void_ptr  # noqa: B018 - is it there?
    except (OSError, AttributeError):
        return None
    function.argtypes = [
        c_void_p, c_int64, c_void_p, c_void_p, c_int64, c_int32, c_int32, c_int32, c_void_p, c_int32, c_char_p, c_int64,
    ]  # fmt: skip
    function.restype = c_int32

    def create(memory: Tensor, shape: tuple[int, int], dtype: torch.dtype, described: bytes, handle: Any) -> int:
        sizes, strides = (c_int64 * 2)(*shape), (c_int64 * 2)(shape[1], 1)
        return int(function(
            memory.data_ptr(), 2, sizes, strides, 0, codes[dtype], cpu, 0, handle, layout, described, len(described)
        ))  # fmt: skip

    return create


def can_describe() -> bool:
    """True if this torch can say how a prepacked matrix lies, and make one over bytes."""
    return _create() is not None


def description(packed: Tensor) -> bytes:
    """oneDNN's own words for shape, type and order of a prepacked matrix. Good for this version of torch and this
    processor only."""
    return bytes(getattr(torch.ops.mkldnn, DESCRIBE)(packed).numpy())


def over(memory: Tensor, shape: tuple[int, int], dtype: torch.dtype, described: bytes) -> Tensor:
    """A prepacked matrix [out, in] over memory (uint8 [bytes]) that holds one of this description. Nothing is copied:
    the caller keeps `memory`. described: from `description`, unchanged. Raises RuntimeError."""
    create, handle = _create(), c_void_p()
    if create is None:
        raise RuntimeError("This torch cannot make a prepacked matrix over memory.")
    if create(memory, shape, dtype, described, byref(handle)) or not handle.value:
        raise RuntimeError("torch did not take this description of a prepacked matrix.")
    tensor: Tensor = torch._C._aoti.alloc_tensor_by_stealing_from_void_ptr(_capsule(handle.value))
    if tuple(tensor.shape) != shape or torch.ops.mkldnn._nbytes(tensor) != memory.nbytes:
        raise RuntimeError("The description is that of another matrix.")
    return tensor


def _capsule(address: int) -> Any:
    make = ctypes.pythonapi.PyCapsule_New
    make.argtypes, make.restype = [c_void_p, c_char_p, c_void_p], py_object
    return make(address, None, None)
