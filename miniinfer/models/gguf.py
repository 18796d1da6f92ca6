"""Reads the header of a GGUF file: its keys and values, and where each tensor lies.

Nothing in the file is trusted. Every count is held against the bytes that are left before anything is allocated or
looped over, so a hostile file costs no more time or memory than its own header (at most MAX_HEADER_BYTES).
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from miniinfer.models.gguf_cursor import Cursor, Value
from miniinfer.models.sniff import HEAD_BYTES, refuse_impostor
from miniinfer.models.tensor_types import SUPPORTED, TensorType, type_name
from miniinfer.strangers import open_file

MAX_KEYS = MAX_TENSORS = 1 << 16
MAX_NAME_CHARACTERS = 256
MAX_DIMENSIONS = 4
MAX_OFFSET = 1 << 63
LISTED_NAMES = 5  # as many names as a message can hold


@dataclass(frozen=True)
class TensorInfo:
    """One tensor of the file. shape is row-major ([out, in] for a matrix); offset in bytes from the file's start."""

    name: str
    shape: tuple[int, ...]
    kind: TensorType
    offset: int
    nbytes: int


@dataclass(frozen=True)
class GGUFHeader:
    """What the header says. Arrays of strings are lists, arrays of numbers are numpy arrays [n]."""

    path: Path
    metadata: Mapping[str, Value]
    tensors: Mapping[str, TensorInfo]
    file_bytes: int
    data_start: int


def read_header(path: Path) -> GGUFHeader:
    """Raises ModelFileError if the file is not a whole GGUF file that we can read, OSError if it cannot be opened."""
    with open_file(path) as file:
        file_bytes = file.seek(0, 2)
        file.seek(0)
        refuse_impostor(path.name, file.read(HEAD_BYTES))
        file.seek(0)
        cursor = Cursor(path.name, file, file_bytes)
        _check_version(cursor)
        num_tensors, num_keys = cursor.u64("the number of tensors"), cursor.u64("the number of keys")
        if num_tensors > MAX_TENSORS or num_keys > MAX_KEYS:
            raise cursor.error(f"claims {num_tensors} tensors and {num_keys} keys, which no model has; it is damaged")
        metadata = _metadata(cursor, num_keys)
        raw_infos = _raw_infos(cursor, num_tensors)
        alignment = _alignment(cursor, metadata)
        data_start = -(-cursor.position // alignment) * alignment
        infos = [_tensor_info(cursor, *raw, alignment=alignment, data_start=data_start) for raw in raw_infos]
        _check_layout(cursor, infos, file_bytes)
    return GGUFHeader(path, metadata, {info.name: info for info in infos}, file_bytes, data_start)


def _check_version(cursor: Cursor) -> None:
    magic = cursor.take(4, "the magic number")
    if magic != b"GGUF":
        raise cursor.error(f"is not a GGUF file (it starts with {magic!r}): give a GGUF file or a Hugging Face folder")
    version = cursor.u32("the version")
    if version not in (2, 3):
        order = " in big-endian order" if version & 0xFFFF == 0 else ""
        raise cursor.error(f"is GGUF version {version}{order}, and MiniInfer reads versions 2 and 3, little-endian")


def _metadata(cursor: Cursor, count: int) -> dict[str, Value]:
    metadata: dict[str, Value] = {}
    cursor.check(count, 8 + 4 + 1, "the list of keys")
    for _ in range(count):
        key = cursor.text("the name of a key")
        if not 0 < len(key) <= MAX_NAME_CHARACTERS:
            raise cursor.error(f"has a key with a name of {len(key)} characters; it is damaged")
        if key in metadata:
            raise cursor.error(f"holds the key {key} twice, so its meaning is unclear")
        metadata[key] = cursor.value(key)
    return metadata


def _alignment(cursor: Cursor, metadata: Mapping[str, Value]) -> int:
    value = metadata.get("general.alignment", 32)  # GGUF: 32 if the key is absent
    if isinstance(value, bool) or not isinstance(value, int) or not 8 <= value <= 1 << 20 or value & (value - 1):
        raise cursor.error(f"has general.alignment {reprlib.repr(value)}, which is not a power of two from 8 to 1 MiB")
    return value


def _raw_infos(cursor: Cursor, count: int) -> list[tuple[str, tuple[int, ...], int, int]]:
    """(name, shape, type number, offset in the data) of each tensor; names are unique, types are ones we read."""
    infos: list[tuple[str, tuple[int, ...], int, int]] = []
    names: set[str] = set()
    cursor.check(count, 8 + 4 + 8 + 4 + 8, "the list of tensors")
    for _ in range(count):
        name = cursor.text("the name of a tensor")
        if not 0 < len(name) <= MAX_NAME_CHARACTERS:
            raise cursor.error(f"has a tensor with a name of {len(name)} characters; it is damaged")
        if name in names:
            raise cursor.error(f"holds the tensor {name} twice, so its meaning is unclear")
        names.add(name)
        dimensions = cursor.u32(f"the shape of {name}")
        if not 1 <= dimensions <= MAX_DIMENSIONS:
            raise cursor.error(f"gives {name} {dimensions} dimensions, where 1 to {MAX_DIMENSIONS} are possible")
        shape = tuple(cursor.u64(f"the shape of {name}") for _ in range(dimensions))
        infos.append((name, shape[::-1], cursor.u32(f"the type of {name}"), cursor.u64(f"the offset of {name}")))
    _refuse_types(cursor, {name: type_id for name, _, type_id, _ in infos if type_id not in SUPPORTED})
    return infos


def _refuse_types(cursor: Cursor, unsupported: Mapping[str, int]) -> None:
    if not unsupported:
        return
    named = [f"{name} ({type_name(type_id)})" for name, type_id in unsupported.items()]
    more = f" and {len(named) - LISTED_NAMES} more" if len(named) > LISTED_NAMES else ""
    supported = ", ".join(kind.name for kind in SUPPORTED.values())
    raise cursor.error(
        f"holds tensors of types that MiniInfer cannot read: {', '.join(named[:LISTED_NAMES])}{more}; "
        f"get a file that uses only {supported}"
    )


def _tensor_info(
    cursor: Cursor, name: str, shape: tuple[int, ...], type_id: int, offset: int, *, alignment: int, data_start: int
) -> TensorInfo:
    kind = SUPPORTED[type_id]
    elements = math.prod(shape)
    if not 0 < elements < MAX_OFFSET:
        raise cursor.error(f"gives {name} the impossible shape {list(shape)}; it is damaged")
    if shape[-1] % kind.block_elements:
        raise cursor.error(
            f"stores {name} as {kind.name}, whose blocks hold {kind.block_elements} elements, in rows of {shape[-1]}"
        )
    if offset >= MAX_OFFSET or offset % alignment:
        raise cursor.error(f"gives {name} the impossible offset {offset}; it is damaged")
    return TensorInfo(name, shape, kind, data_start + offset, kind.row_bytes(elements))


def _check_layout(cursor: Cursor, infos: list[TensorInfo], file_bytes: int) -> None:
    """Every tensor lies inside the file, and no two share a byte."""
    outside = [info for info in infos if info.offset + info.nbytes > file_bytes]
    if outside:
        needed = max(info.offset + info.nbytes for info in outside)
        raise cursor.error(
            f"has {file_bytes} bytes and needs {needed}: {len(outside)} of its {len(infos)} tensors reach past the "
            f"end, the first is {outside[0].name}; was the download truncated? Fetch the file again"
        )
    by_place = sorted(infos, key=lambda info: info.offset)
    for left, right in pairwise(by_place):
        if left.offset + left.nbytes > right.offset:
            raise cursor.error(f"lets the tensors {left.name} and {right.name} overlap; it is damaged")
