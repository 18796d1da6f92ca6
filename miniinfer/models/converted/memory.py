"""The body of a file of converted weights, in memory: mapped where that is as fast as memory of our own, else read.

A decode step reads all weights, and in pages of 4 kB half of its time would go into looking addresses up (see
docs/performance.md). So the mapping is used only if the system has put it in large pages, which it says itself. The
file is our own and never written after it was made; a user's model file is never mapped, for one that shrinks under a
mapping ends the process.
"""

from __future__ import annotations

import mmap
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from miniinfer.models.converted.layout import Bytes, Footer, UnusableCopyError, check

MADV_HUGEPAGE = 14  # Linux; the module mmap names it where the headers it was built with did
LARGE_SHARE = 0.9  # of a mapping that must lie in large pages
LARGE_PAGE_BYTES = 1 << 21
SMAPS = Path("/proc/self/smaps")


@dataclass(frozen=True)
class Body:
    """bytes [n], never to be written: a mapping that is would be a fault. They live as long as `bytes`, or any part of
    it, does."""

    bytes: Bytes
    mapped: bool


def load_body(file: BinaryIO, footer: Footer) -> Body:
    """The body, checked. Raises UnusableCopyError, OSError."""
    if sys.platform != "win32":  # there an open mapping would keep the file from being removed
        mapping = mmap.mmap(file.fileno(), footer.body_bytes, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
        _ask_for_large_pages(mapping)
        mapped = np.frombuffer(mapping, np.uint8)
        check(mapped, footer)  # touches every page
        if sys.platform == "darwin" or large_share(mapped) >= LARGE_SHARE:
            return Body(mapped, mapped=True)
        del mapped
        mapping.close()
    memory = mmap.mmap(-1, footer.body_bytes)
    _ask_for_large_pages(memory)
    _read(file, memoryview(memory))
    body = np.frombuffer(memory, np.uint8)
    check(body, footer)
    body.flags.writeable = False
    return Body(body, mapped=False)


def large_share(memory: Bytes) -> float:
    """How much of a mapped file lies in large pages, 0 to 1, as Linux says; 0 if it does not say."""
    first = f"{memory.ctypes.data:x}-"
    try:
        lines = iter(SMAPS.read_text("ascii", errors="replace").splitlines())
    except OSError:
        return 0.0
    inside = False
    for line in lines:
        word, _, rest = line.partition(" ")
        if not word.endswith(":"):  # the head of the next mapping: its range of addresses
            if inside:
                break
            inside = line.lstrip("0").startswith(first)
        elif inside and word == "FilePmdMapped:":
            return int(rest.split()[0]) * 1024 / memory.nbytes
    return 0.0


def _ask_for_large_pages(memory: mmap.mmap) -> None:
    if sys.platform != "linux":
        return
    with suppress(OSError):  # this system has none
        memory.madvise(MADV_HUGEPAGE)


def _read(file: BinaryIO, memory: memoryview) -> None:
    file.seek(0)
    done = 0
    while done < len(memory):
        count = file.readinto(memory[done : done + 64 * LARGE_PAGE_BYTES])  # type: ignore[attr-defined]
        if not count:
            raise UnusableCopyError("It became shorter while it was read.")
        done += count
