"""What a kind of file is to the fuzzer: how a good one is made, how it is read, and the ways to damage it."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.fuzz_mutations import BYTES, Mutation


def folder() -> Path:
    """A new one, which goes when the process ends."""
    made = Path(tempfile.mkdtemp(prefix="miniinfer-fuzz-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def as_it_is(data: bytes) -> bytes:
    return data


@dataclass(frozen=True)
class Kind:
    """good: the bytes of a file that can be opened. read: opens one and uses it, or raises MiniInferError.
    place: puts the bytes where `read` looks for them, and gives what it takes; it is not watched.
    """

    good: Callable[[], bytes]
    read: Callable[[bytes], object]
    ways: tuple[Mutation, ...] = BYTES
    place: Callable[[bytes], bytes] = as_it_is
