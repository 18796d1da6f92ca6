"""Timing as it has to be done on a shared machine: warm-up thrown away, variants in random order, medians, pairs.

The same code can take 13 or 20 ms within the hour, so two figures of different runs are never compared: `compare_ms`
runs all variants once per round, in a new random order each round, and gives the median of each and of the paired
differences.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from miniinfer.errors import BadInputError


@dataclass(frozen=True)
class Timing:
    """Milliseconds: median and 90th percentile of the rounds; ratio: median of (this / first variant) by round."""

    median_ms: float
    p90_ms: float
    ratio: float
    rounds: int


def compare_ms(
    variants: Mapping[str, Callable[[], object]], *, rounds: int = 20, warm_up: int = 3, seed: int = 0
) -> dict[str, Timing]:
    """Time every variant once a round. The first one is what the ratios refer to. Raises BadInputError."""
    taken = rounds_ms(variants, rounds=rounds, warm_up=warm_up, seed=seed)
    first = taken[next(iter(variants))]
    return {name: timing_of(taken[name], first) for name in variants}


def rounds_ms(
    variants: Mapping[str, Callable[[], object]], *, rounds: int, warm_up: int, seed: int = 0
) -> dict[str, list[float]]:
    """The milliseconds of every variant in every round, for ratios between any two of them. Raises BadInputError."""
    if not variants or rounds < 1 or warm_up < 0:
        raise BadInputError("Timing needs at least one variant, one round, and no negative warm-up.")
    order = list(variants)
    shuffle = random.Random(seed).shuffle  # not the global random state
    taken: dict[str, list[float]] = {name: [] for name in order}
    for number in range(warm_up + rounds):
        shuffle(order)
        for name in order:
            start = time.perf_counter()
            variants[name]()
            if number >= warm_up:
                taken[name].append((time.perf_counter() - start) * 1000)
    return taken


def timing_of(values: Sequence[float], first: Sequence[float]) -> Timing:
    """Milliseconds of the rounds, and of the variant that the ratio refers to in the same rounds."""
    ranked = sorted(values)
    return Timing(
        statistics.median(values),
        ranked[min(len(ranked) - 1, int(0.9 * len(ranked)))],
        statistics.median(a / b for a, b in zip(values, first, strict=True)),
        len(values),
    )
