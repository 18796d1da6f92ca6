"""Plain numpy arrays in a zip, read from strangers: nothing is executed, nothing large is made before it is checked.

A zip can say anything of itself: how many members it has, where they lie, how large they unpack. So its directory is
measured before it is read, members are asked for by name, each is unpacked only as far as its array may be, and an
array's header is compared with the bytes behind it before there is an array. Pickles are no arrays here.
"""

from __future__ import annotations

import io
import math
import re
import zipfile
import zlib
from typing import Any

import numpy as np

END = b"PK\5\6"  # of the record at the end of a zip without a comment, which has 22 bytes
END_BYTES = 22
ZIP64 = b"PK\6\7"  # of the record before it, which only a zip beyond 4 GB needs
MOST_DIRECTORY = 4096  # bytes; ours has some 60 a member
DTYPES: dict[bytes, np.dtype[Any]] = {b"|u1": np.dtype(np.uint8), b"<f4": np.dtype("<f4")}
MAGIC = b"\x93NUMPY\x01\x00"
HEADER = re.compile(
    rb"\{'descr': '(\|u1|<f4)', 'fortran_order': False, 'shape': \(((?:\d{1,9}, ?){0,3}(?:\d{1,9})?)\), \} *\n"
)
# All that reading such a file can raise, whatever is in it. RuntimeError: encrypted members, recursion.
DAMAGE = (
    OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, MemoryError, OverflowError,
    zipfile.BadZipFile, zlib.error,
)


def read_arrays(data: bytes, names: dict[str, int], most: int) -> dict[str, np.ndarray]:
    """The arrays "NAME.npy" of a zip; names: with the most bytes that each may have; most: that all may have.

    Arrays are read-only, u8 or float32. Raises ValueError or another of DAMAGE for anything else.
    """
    _measure(data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        found = [entry.filename for entry in archive.infolist()]
        unknown = set(found) - {f"{name}.npy" for name in names}
        if unknown or len(set(found)) != len(found):
            raise ValueError(f"it has members that a run file does not have: {', '.join(sorted(unknown))[:80]!r}")
        arrays, left = {}, most
        for entry in archive.infolist():
            name = entry.filename.removesuffix(".npy")
            limit = min(names[name], left)
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError("it is packed in a way that a run file is not")
            if entry.file_size > limit:
                raise ValueError(f"{name} unpacks to {entry.file_size:,} bytes, and {limit:,} is the limit")
            with archive.open(entry) as member:
                content = member.read(limit + 1)
            left -= len(content)
            arrays[name] = _array(content, name)
    return arrays


def _measure(data: bytes) -> None:
    end = data[-END_BYTES:]
    if len(end) < END_BYTES or end[:4] != END:
        raise ValueError("it has no end, or is no zip at all")
    entries, size, start = (int.from_bytes(end[a:b], "little") for a, b in ((10, 12), (12, 16), (16, 20)))
    fits = start + size == len(data) - END_BYTES and size <= MOST_DIRECTORY and 46 * entries <= size
    if not fits or end[20:] != b"\0\0" or data[-END_BYTES - 20 : -END_BYTES - 16] == ZIP64:
        raise ValueError("its directory is not that of a run file")


def _array(content: bytes, name: str) -> np.ndarray:
    """numpy's format 1.0, its header as numpy writes it: read here, for numpy's own reader takes it for Python."""
    start = len(MAGIC) + 2
    end = start + int.from_bytes(content[len(MAGIC) : start], "little")
    found = HEADER.fullmatch(content[start:end]) if content[: len(MAGIC)] == MAGIC else None
    if found is None:
        raise ValueError(f"{name} is no array, or has another kind of numbers than a run file")
    dtype = DTYPES[found[1]]
    shape = tuple(int(n) for n in found[2].split(b",") if n.strip())
    size = dtype.itemsize * math.prod(shape)
    if size != len(content) - end:
        raise ValueError(f"{name} says it has {size:,} bytes, and has {len(content) - end:,}")
    return np.frombuffer(content, dtype, offset=end).reshape(shape)


def write_arrays(file: io.BytesIO, arrays: dict[str, np.ndarray]) -> None:
    """The inverse of `read_arrays`."""
    np.savez_compressed(file, allow_pickle=False, **arrays)
