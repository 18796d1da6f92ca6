"""A long measurement as a generator: it stops between any two steps, so that others can run, or it can be ended."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Progress:
    """What is being done, in a few words, and how much of the whole is done (0 to 1)."""

    text: str
    share: float


Measurement = Generator[Progress, None, T]  # each `next` does the work of one step at most


def run_through(measurement: Measurement[T], show: Callable[[Progress], object] | None = None) -> T:
    """All of it, one step after another."""
    while True:
        try:
            progress = next(measurement)
        except StopIteration as end:
            return end.value
        if show is not None:
            show(progress)


def part(measurement: Measurement[T], start: float, stop: float) -> Measurement[T]:
    """A part of a longer one: its progress counts from `start` to `stop` of the whole."""
    while True:
        try:
            progress = next(measurement)
        except StopIteration as end:
            return end.value
        yield Progress(progress.text, start + (stop - start) * progress.share)
