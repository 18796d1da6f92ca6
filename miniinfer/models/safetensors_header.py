"""The header of a safetensors file: a length, then JSON that says what each tensor is and where it lies.

Read here and not by the library, because that maps the file into memory: one that becomes shorter while it is read then
ends the process, and no handler can catch it. Nothing in the header is trusted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, BinaryIO

from miniinfer.checks import array, exactly, text, whole
from miniinfer.models.json_file import parse_json_object

MAX_HEADER_BYTES = 8 << 20  # the largest in use take less than one
MAX_DIMENSIONS = 8
ITEM_BYTES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2,
    "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Stored:
    """One tensor. start: in bytes from the beginning of the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    nbytes: int


def read_header(file: BinaryIO) -> dict[str, Stored]:
    """Raises ValueError, with a reason, for anything but a whole file whose tensors fill it without gap or overlap."""
    file_bytes = file.seek(0, 2)
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    if file_bytes < 8 or length > file_bytes - 8:
        raise ValueError(f"a header of {length} bytes in a file of {file_bytes}")
    if length > MAX_HEADER_BYTES:
        raise ValueError(f"a header of more than {MAX_HEADER_BYTES >> 20} MiB, which no model needs")
    entries = parse_json_object(file.read(length))
    entries.pop("__metadata__", None)
    data = 8 + length
    found = {text(name, 1000): _stored(entry, data, file_bytes - data) for name, entry in entries.items()}
    end = data
    for name, stored in sorted(found.items(), key=lambda item: (item[1].start, item[1].nbytes)):
        if stored.start != end:
            raise ValueError(f"a gap or an overlap before {name[:80]!r}")
        end += stored.nbytes
    if end != file_bytes:
        raise ValueError(f"tensors up to byte {end} in a file of {file_bytes}")
    return found


def _stored(entry: Any, data: int, data_bytes: int) -> Stored:
    fields = exactly(entry, {"dtype", "shape", "data_offsets"})
    dtype = text(fields["dtype"], 20)
    shape = tuple(whole(size) for size in array(fields["shape"], 0, MAX_DIMENSIONS))
    begin, end = (whole(offset, 0, data_bytes) for offset in array(fields["data_offsets"], 2, 2))
    item = ITEM_BYTES.get(dtype)  # one that is not known here is refused by its name, with what else is wrong so
    if end < begin or (item is not None and math.prod(shape) * item != end - begin):
        raise ValueError(f"{end - begin} bytes for numbers of the kind {dtype} in the shape {list(shape)}")
    return Stored(dtype, shape, data + begin, end - begin)
