"""Work that comes in parts: a generator that yields the share that is done and returns what was asked for."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Parts = Generator[float, None, T]


def finished(work: Parts[T]) -> T:
    """All parts at once."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: T = end.value
            return found
