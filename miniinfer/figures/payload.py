"""The binary frame between Python and a component: a u32 little-endian header length, header JSON, the arrays' bytes.

The header's "blobs" maps a name to [offset, byte length, "u8" | "f32", shape]; offsets count from the first byte after
the header and are multiples of 4, so that the browser can view them as typed arrays without copying.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

_KINDS: dict[str, np.dtype[Any]] = {"u8": np.dtype(np.uint8), "f32": np.dtype("<f4")}


def pack(header: dict[str, Any], blobs: dict[str, np.ndarray]) -> bytes:
    """One message. Raises ValueError for an array that is neither u8 nor float32, or a header that is not JSON."""
    parts: list[bytes] = []
    index: dict[str, list[Any]] = {}
    offset = 0
    for name, array in blobs.items():
        kind = next((k for k, dtype in _KINDS.items() if array.dtype == dtype), None)
        if kind is None:
            raise ValueError(f"{name} has type {array.dtype}; a message carries u8 and f32 only")
        data = np.ascontiguousarray(array).tobytes()
        index[name] = [offset, len(data), kind, list(array.shape)]
        padding = -len(data) % 4
        parts += [data, b"\0" * padding]
        offset += len(data) + padding
    text = json.dumps(header | {"blobs": index}, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-len(text) % 4)
    return struct.pack("<I", len(text)) + text + b"".join(parts)


def unpack(message: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header without "blobs", and the arrays; the inverse of `pack`, for tests and tools."""
    (length,) = struct.unpack_from("<I", message)
    header = json.loads(message[4 : 4 + length])
    base = 4 + length
    blobs = {
        name: np.frombuffer(message, _KINDS[kind], size // _KINDS[kind].itemsize, base + offset).reshape(shape)
        for name, (offset, size, kind, shape) in header.pop("blobs").items()
    }
    return header, blobs
