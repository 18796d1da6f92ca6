"""The compiled core as ctypes sees it: core.h, function by function. Standard library only."""

from __future__ import annotations

import ctypes
from ctypes import Structure, c_double, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Any

from miniinfer.errors import MiniInferError

VERSION = 1  # of the interface: what mi_version() answers
FLOAT32_PANELS, INT4_PANELS, Q8_ROWS = 0, 1, 2


class NativeError(MiniInferError):
    """The core cannot be used here; the sentence says why."""


class Matrix(Structure):
    """core.h: struct Matrix."""

    _fields_ = [
        ("layout", c_int32), ("width", c_int32), ("out", c_int64), ("in_features", c_int64), ("columns", c_int64),
        ("numbers", c_void_p), ("scales", c_void_p),
    ]  # fmt: skip


class Cache(Structure):
    """core.h: struct Cache."""

    _fields_ = [
        ("layer", c_void_p), ("num_blocks", c_int64), ("block_size", c_int64), ("num_kv_heads", c_int64),
        ("head_dim", c_int64),
    ]  # fmt: skip


P, N, D = c_void_p, c_int64, c_double  # an address, a whole number, a real one
PRODUCTS = {
    "mi_linear": (P, P, N, P),
    "mi_linear_add": (P, P, P, N, P, P),
    "mi_mlp_hidden": (P, P, N, P),
    "mi_attn_scores": (P, P, N, N, P, N, P, N, N, P),
    "mi_attn_pattern": (P, N, N, P),
    "mi_attn_mix": (P, P, N, P, N, P, N, N, P),
    "mi_set_threads": (N,),
}
SHORT = {
    "mi_rms_norm": (P, P, D, N, N, P),
    "mi_rope": (P, N, P, N, P, P, N, N, N, N, P),
    "mi_write_kv": (P, P, N, P, N, P, N, P, N),
}


class Library:
    """The functions of a compiled core, without their prefix: `library.linear(...)`. Arguments as in core.h, pointers
    as addresses; nothing is checked there.

    Long ones let other threads of Python run meanwhile; short ones (some microseconds) do not, for getting the
    interpreter's lock back would take longer.
    """

    def __init__(self, path: Path) -> None:
        """Raises NativeError if this file is no such library."""
        self.path = path
        try:
            long, short = ctypes.CDLL(str(path)), ctypes.PyDLL(str(path))
            long.mi_version.restype = c_int64
            version = long.mi_version()
            if version != VERSION:
                raise NativeError(f"The compiled core {path.name} has version {version}, not {VERSION}.")
            self.linear = _function(long, "mi_linear")
            self.linear_add = _function(long, "mi_linear_add")
            self.mlp_hidden = _function(long, "mi_mlp_hidden")
            self.attn_scores = _function(long, "mi_attn_scores")
            self.attn_pattern = _function(long, "mi_attn_pattern")
            self.attn_mix = _function(long, "mi_attn_mix")
            self.set_threads = _function(long, "mi_set_threads")
            self.rms_norm = _function(short, "mi_rms_norm")
            self.rope = _function(short, "mi_rope")
            self.write_kv = _function(short, "mi_write_kv")
        except (OSError, AttributeError) as error:
            raise NativeError(f"The compiled core {path.name} could not be loaded: {error}.") from error


def _function(library: ctypes.CDLL, name: str) -> Any:
    function = library[name]  # a new object each time, so that the two ways of calling stay apart
    function.argtypes = (PRODUCTS | SHORT)[name]
    function.restype = None
    return function


