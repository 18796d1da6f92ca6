"""Files and JSON texts from strangers, read so that they cost what they may cost and no more. Imports nothing of ours.

A folder from a stranger may hold a pipe that nobody writes into, a link to a device without end, a file of terabytes
that takes no room on the disk. A JSON text may become thirty times as large in memory, and may say a thing twice.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import stat
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

MAX_VALUES = 3_000_000  # a text of nothing but "[]," becomes thirty times as large in memory


def open_file(path: Path) -> BinaryIO:
    """The file, to be read. Raises OSError for a pipe, a device, a folder, and for whatever cannot be opened."""
    return cast(BinaryIO, open(path, "rb", opener=_plain))


def _plain(path: str, flags: int) -> int:
    # Without waiting for somebody at the other end of a pipe, which may have taken the place of the file just now.
    place = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    kind = os.fstat(place).st_mode
    if stat.S_ISREG(kind):
        return place
    os.close(place)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(errno.EINVAL, "It is a pipe or a device and no file")


def read_file(path: Path, most: int) -> bytes:
    """All of a file of at most `most` bytes. Raises OSError, and ValueError for a larger one."""
    with open_file(path) as file:
        return read_stream(file, most)


def read_stream(file: BinaryIO, most: int) -> bytes:
    """The same of what is open already, a pipe too: size and end are what is read, and not what somebody says."""
    data = file.read(most + 1) or b""  # None: a file of the system's own that has nothing to say now
    if len(data) > most:
        size = f"{most >> 20} MB" if most >= 1 << 20 else f"{most:,} bytes"
        raise ValueError(f"it has more than {size}, which no such file needs")
    return data


def parse_json(raw: bytes, constant: Callable[[str], object] | None = None) -> Any:
    """The value of a text in UTF-8, in which no name stands twice in an object. constant: what NaN and Infinity mean.

    Raises ValueError or RecursionError, with a reason, for what is no JSON or has more than MAX_VALUES values.
    """
    if sum(raw.count(mark) for mark in (b",", b"[", b"{")) > MAX_VALUES:
        raise ValueError(f"more than {MAX_VALUES:,} values")
    text = raw.decode("utf-8-sig")
    collects = gc.isenabled()
    gc.disable()  # a text of many lists has it look through all of them again and again: ten times the whole work
    try:
        return json.loads(text, parse_constant=constant or _refuse_constant, object_pairs_hook=_each_once)
    except ValueError as error:
        if "set_int_max_str_digits" in str(error):  # Python's advice to whoever writes programs
            raise ValueError("a whole number of thousands of digits") from None
        raise
    finally:
        if collects:
            gc.enable()


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """JSON itself would take the last one without a word, and another program perhaps the first."""
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"the field {twice[:80]!r} stands twice")
    return found
