"""The compiled core as ctypes sees it: core.h, function by function. Standard library only.

Each stage is there for fields of float32 and of bfloat16. A structure has the same layout for both.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import CFUNCTYPE, PYFUNCTYPE, Structure, c_char_p, c_double, c_int32, c_int64, c_void_p
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from miniinfer.errors import MiniInferError

VERSION = 4  # of the interface: what mi_version() answers
MOST_ROWS = 8  # of a product: beyond, torch's are as fast, but for the matrices that mi_takes_many() names
FLOAT32_PANELS, INT4_PANELS, Q8_ROWS, BFLOAT16_PANELS = 0, 1, 2, 3


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


class Layer(Structure):
    """core.h: struct Layer."""

    _fields_ = [(name, c_void_p) for name in ("attn_norm", "qkv", "attn_out", "mlp_norm", "gate_up", "down")]


class Step(Structure):
    """core.h: struct Step."""

    _fields_ = [
        ("layers", c_void_p),
        *((name, c_int64) for name in (
            "num_layers", "rows", "hidden", "mlp", "num_heads", "num_kv_heads", "head_dim", "context", "table_size")),
        ("eps", c_double),
        *((name, c_void_p) for name in ("rope_cos", "rope_sin", "slots", "new_blocks", "tables", "lens")),
        ("num_new", c_int64), ("cache", Cache), ("cache_stride", c_int64),
        *((name, c_void_p) for name in (
            "embedded", "attn_norm_out", "qkv", "turned", "z", "attn_out", "resid_mid", "mlp_norm_out", "mlp_hidden",
            "mlp_out", "resid_post")),
    ]  # fmt: skip


P, N, D = c_void_p, c_int64, c_double  # an address, a whole number, a real one
COMMON: dict[str, tuple[Any, ...]] = {"mi_set_threads": (N,), "mi_takes_many": (P,), "mi_large_pages": (P, N)}
LONG = {
    "mi_linear": (P, P, N, P),
    "mi_gate": (P, N, N, P),
    "mi_attn_scores_rows": (P, P, N, N, P, N, N, P),
    "mi_attn_mix_rows": (P, P, N, P, N, N, P),
    "mi_largest_in_cells": (P, N, N, N, N, N, N, N, P),
}
SHORT = {
    "mi_linear_add": (P, P, P, N, P, P),
    "mi_mlp_hidden": (P, P, N, P),
    "mi_embed": (P, N, P, N, N, P),
    "mi_rms_norm": (P, P, D, N, N, P),
    "mi_rope": (P, N, P, N, P, P, N, N, N, N, P),
    "mi_write_kv": (P, P, N, P, N, P, N, P, N),
    "mi_attn_scores": (P, P, N, N, P, N, P, N, N, P),
    "mi_attn_pattern": (P, N, N, P),
    "mi_attn_mix": (P, P, N, P, N, P, N, N, P),
    "mi_step_attn_norm": (P, N),
    "mi_step_qkv_proj": (P, N),
    "mi_step_rope": (P, N),
    "mi_step_write_kv": (P, N),
    "mi_step_attn_scores": (P, N, P),
    "mi_step_attn_pattern": (P, P, P),
    "mi_step_attn_mix": (P, N, P),
    "mi_step_attn_out": (P, N),
    "mi_step_mlp_norm": (P, N),
    "mi_step_mlp_hidden": (P, N),
    "mi_step_mlp_out": (P, N),
}


class Stages:
    """The functions for fields of one type, without their prefix: `stages.linear(...)`. Arguments as in core.h,
    pointers as addresses; nothing is checked there.

    A call keeps the interpreter's lock, for getting it back beside a busy thread takes longer than most calls; but not
    `linear`, which takes milliseconds for the unembed matrix, and what only a prefill needs. `for_rows` has all of them
    in the form for many rows, without the lock. Between two calls other threads get their turn.
    """

    def __init__(self, core: ctypes.CDLL, bfloat16: bool) -> None:
        """Raises AttributeError if this library lacks one of them."""
        self._unlocked = SimpleNamespace()
        for name, types in (LONG | SHORT).items():
            address = core.mi_function(name.encode(), bfloat16)
            if not address:
                raise AttributeError(f"it has no {name}")
            short_name = name.removeprefix("mi_")
            unlocked = CFUNCTYPE(None, *types)(address)
            setattr(self._unlocked, short_name, unlocked)
            setattr(self, short_name, PYFUNCTYPE(None, *types)(address) if name in SHORT else unlocked)

    def for_rows(self, count: int) -> Any:
        """The functions to call with so many rows: a call with many takes long enough to let other threads run."""
        return self if count <= MOST_ROWS else self._unlocked

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]: ...


class Library(Stages):
    """A compiled core: its functions for float32 fields, in `of(bfloat16=True)` those for bfloat16, and what both
    share."""

    def __init__(self, path: Path) -> None:
        """Raises NativeError if this file is no such library."""
        self.path = path
        try:
            core = ctypes.CDLL(str(path))
            core.mi_version.restype = c_int64
            version = core.mi_version()
            if version != VERSION:
                raise NativeError(f"The compiled core {path.name} has version {version}, not {VERSION}.")
            core.mi_function.argtypes, core.mi_function.restype = (c_char_p, c_int64), c_void_p
            for name, types in COMMON.items():
                function = core[name]
                function.argtypes, function.restype = types, c_int64 if name == "mi_takes_many" else None
                setattr(self, name.removeprefix("mi_"), function)
            super().__init__(core, bfloat16=False)
            self._bfloat16 = Stages(core, bfloat16=True)
        except (OSError, AttributeError) as error:
            raise NativeError(f"The compiled core {path.name} could not be loaded: {error}.") from error

    def of(self, *, bfloat16: bool) -> Stages:
        """The functions for fields of that type."""
        return self._bfloat16 if bfloat16 else self
