"""Being somebody who may not write everywhere. Tests often run as root, for whom a read-only folder is none."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VERSION_3 = 0x20080522  # of the two calls' structures
IGNORE_PERMISSIONS = (1 << 1) | (1 << 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nobody may write into the folder, not even this thread and those that it starts meanwhile."""
    folder.chmod(0o555)
    try:
        with _without_capabilities():
            yield
    finally:
        folder.chmod(0o755)


@contextmanager
def _without_capabilities() -> Iterator[None]:
    if sys.platform != "linux" or os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    head = (ctypes.c_uint32 * 2)(VERSION_3, 0)
    kept = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice
    assert libc.capget(head, kept) == 0
    less = (ctypes.c_uint32 * 6)(*kept)
    less[0] &= ~IGNORE_PERMISSIONS  # effective alone: what is permitted can be taken up again
    assert libc.capset(head, less) == 0
    try:
        yield
    finally:
        assert libc.capset(head, kept) == 0
