"""A place in the header of a GGUF file that cannot leave it: every read is checked against what is left."""

from __future__ import annotations

import struct
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from miniinfer.errors import ModelFileError

MAX_HEADER_BYTES = 64 << 20  # the largest vocabularies in use take about 25 MB
MAX_STRINGS = 1_500_000  # in all arrays; the largest vocabularies have half of that, and each costs time, not bytes
READ_BYTES = 1 << 20

STRING, ARRAY, BOOL = 8, 9, 7
NUMBERS: dict[int, np.dtype[Any]] = {
    0: np.dtype("<u1"), 1: np.dtype("<i1"), 2: np.dtype("<u2"), 3: np.dtype("<i2"), 4: np.dtype("<u4"),
    5: np.dtype("<i4"), 6: np.dtype("<f4"), BOOL: np.dtype("<u1"), 10: np.dtype("<u8"), 11: np.dtype("<i8"),
    12: np.dtype("<f8"),
}  # fmt: skip

Value = int | float | bool | str | list[str] | NDArray[np.generic]


class Cursor:
    """Reads little-endian values in order. `what` in every method names the thing being read, for the message."""

    def __init__(self, name: str, file: BinaryIO, file_bytes: int) -> None:
        self.name = name
        self.position = 0  # bytes from the start of the file
        self._file = file
        self._file_bytes = file_bytes
        self._limit = min(file_bytes, MAX_HEADER_BYTES)
        self._buffer = bytearray()
        self._strings = 0

    def error(self, reason: str) -> ModelFileError:
        return ModelFileError(f"{self.name} {reason}.")

    def check(self, count: int, least_bytes: int, what: str) -> None:
        """Refuses a count of things, each of at least so many bytes, that cannot fit into the rest of the header."""
        if count * least_bytes <= self._limit - self.position:
            return
        if count * least_bytes > self._file_bytes - self.position:
            raise self.error(
                f"ends inside its header: {what} needs {count * least_bytes} bytes at byte {self.position}, but the "
                f"file has {self._file_bytes} in all; it is truncated or damaged, so fetch it again"
            )
        raise self.error(f"has a header of more than {MAX_HEADER_BYTES >> 20} MiB ({what}), which no model needs")

    def take(self, size: int, what: str) -> bytes:
        self.check(size, 1, what)
        end = self.position + size
        while len(self._buffer) < end:
            piece = self._file.read(max(READ_BYTES, end - len(self._buffer)))
            if not piece:
                raise self.error(f"became shorter while it was read ({what}): try again")
            self._buffer += piece
        taken = bytes(self._buffer[self.position : end])
        self.position = end
        return taken

    def u32(self, what: str) -> int:
        return int(struct.unpack("<I", self.take(4, what))[0])

    def u64(self, what: str) -> int:
        return int(struct.unpack("<Q", self.take(8, what))[0])

    def text(self, what: str) -> str:
        raw = self.take(self.u64(what), what)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise self.error(f"holds text that is not UTF-8 ({what}); it is damaged, so fetch it again") from None

    def value(self, key: str) -> Value:
        """The value of a key: its type, then its bytes."""
        what = f"the value of {key}"
        kind = self.u32(what)
        if kind == STRING:
            return self.text(what)
        if kind == ARRAY:
            return self._array(what)
        value = self._numbers(kind, 1, what)[0].item()
        return self._truth(value, what) if kind == BOOL else value

    def _array(self, what: str) -> list[str] | NDArray[np.generic]:
        kind, count = self.u32(what), self.u64(what)
        if kind == STRING:
            self.check(count, 8, what)
            self._strings += count
            if self._strings > MAX_STRINGS:
                raise self.error(f"holds more than {MAX_STRINGS:,} texts in lists ({what}), which no model needs")
            return [self.text(what) for _ in range(count)]
        if kind == ARRAY:
            raise self.error(f"holds an array of arrays ({what}), which MiniInfer does not read")
        return self._numbers(kind, count, what)

    def _numbers(self, kind: int, count: int, what: str) -> NDArray[np.generic]:
        dtype = NUMBERS.get(kind)
        if dtype is None:
            raise self.error(f"gives {what} the type number {kind}, which GGUF does not have")
        self.check(count, dtype.itemsize, what)
        return np.frombuffer(self.take(count * dtype.itemsize, what), dtype)

    def _truth(self, value: int, what: str) -> bool:
        if value not in (0, 1):
            raise self.error(f"holds {value} where true or false is expected ({what})")
        return bool(value)
