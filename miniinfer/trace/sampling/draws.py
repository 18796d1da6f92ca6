"""What other coins, and other temperatures, would have drawn from the same logits. Nothing here runs the model."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from miniinfer.config import SamplingParams
from miniinfer.trace.records import FloatArray
from miniinfer.trace.sampling.sampling import Sampling

if TYPE_CHECKING:
    import torch

MANY = 1_000
FEWEST_EXPECTED = 5.0  # a group of tokens is compared with chance once this many of its draws are expected


@dataclass(frozen=True)
class Others:
    """Several tokens together: how many of them can be drawn, their probability, how often one of them was drawn, how
    often that was expected, and the standard deviation of it that chance explains."""

    kept: int
    prob: float
    drawn: int
    expected: float
    spread: float


@dataclass(frozen=True)
class Draws:
    """Many draws from one distribution. token_ids: [n], in the order of the coins; counts: [V]."""

    token_ids: NDArray[np.int64]
    coins: NDArray[np.float64]
    counts: NDArray[np.int64]
    probs: NDArray[np.float64]  # [V], summing to 1

    @property
    def total(self) -> int:
        return len(self.token_ids)

    def expected(self, token_id: int) -> float:
        return self.total * float(self.probs[token_id])

    def spread(self, token_id: int) -> float:
        """The standard deviation of the token's count that chance explains: sqrt(n p (1 - p))."""
        p = float(self.probs[token_id])
        return math.sqrt(self.total * p * (1 - p))

    def deviation(self, token_id: int) -> float:
        """How many of those spreads the count is away from what was expected; 0 where chance has no say."""
        spread = self.spread(token_id)
        return (int(self.counts[token_id]) - self.expected(token_id)) / spread if spread > 0 else 0.0

    def others(self, token_ids: Sequence[int]) -> Others:
        """What all tokens but these have together."""
        shown = list(token_ids)
        rest = max(0.0, 1 - float(self.probs[shown].sum()))
        kept = int((self.probs > 0).sum()) - int((self.probs[shown] > 0).sum())
        spread = math.sqrt(self.total * rest * (1 - rest))
        return Others(kept, rest, self.total - int(self.counts[shown].sum()), self.total * rest, spread)

    def chi_square(self) -> tuple[float, int]:
        """Sum of (count - expected)^2 / expected, and the degrees of freedom, which are what chance gives on average.

        Tokens with fewer than FEWEST_EXPECTED expected draws count together as one group, if that reaches it.
        """
        expected = self.probs * self.total
        own = expected >= FEWEST_EXPECTED
        groups = [expected[own], self.counts[own].astype(np.float64)]
        if (rest := expected[~own].sum()) >= FEWEST_EXPECTED:
            groups = [np.append(groups[0], rest), np.append(groups[1], self.counts[~own].sum())]
        if len(groups[0]) < 2:
            return 0.0, 0
        return float(((groups[1] - groups[0]) ** 2 / groups[0]).sum()), len(groups[0]) - 1


def draw_many(sampling: Sampling, coins: Sequence[float]) -> Draws:
    """Each coin's token: the same inverse CDF as in `engine.sampler.land`, for many coins at once."""
    kept = sampling.order[: int(np.count_nonzero(sampling.used.probs))]
    ends = np.cumsum(sampling.used.probs[kept], dtype=np.float64)
    tossed = np.asarray(coins, np.float64)
    found = np.minimum(np.searchsorted(ends, tossed * ends[-1], side="right"), len(kept) - 1)
    token_ids = kept[found]
    probs = sampling.used.probs.astype(np.float64)
    counts = np.bincount(token_ids, minlength=sampling.vocab_size)
    return Draws(token_ids, tossed, counts, probs / probs.sum())


def coins_from(seed: int, index: int, count: int) -> list[float]:
    """The coins of output tokens index .. index + count - 1 of a seed: the next ones that this run would toss."""
    from miniinfer.engine.sampler import coin

    return [coin(seed, index + i) for i in range(count)]


@dataclass(frozen=True)
class Sweep:
    """temperatures: [n] rising, 0 is greedy. probs: [n, V] used at each. winners: [n] what the same coin draws.

    num_kept: [n] tokens left to draw from.
    """

    temperatures: tuple[float, ...]
    probs: FloatArray
    winners: tuple[int, ...]
    num_kept: tuple[int, ...]
    coin: float


TEMPERATURES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0)


def sweep_temperature(
    logits: torch.Tensor,
    params: SamplingParams,
    prompt_ids: Sequence[int] = (),
    output_ids: Sequence[int] = (),
    *,
    coin: float | None = None,
    temperatures: Sequence[float] = TEMPERATURES,
) -> Sweep:
    """The same logits and coin, all other settings as in params, at each temperature."""
    from miniinfer.engine.sampler import sampler_trace

    found = [
        sampler_trace(logits, dataclasses.replace(params, temperature=t), prompt_ids, output_ids, coin)
        for t in temperatures
    ]
    return Sweep(
        tuple(temperatures), np.stack([trace.probs.numpy() for trace in found]),
        tuple(trace.token_id for trace in found), tuple(int((trace.probs > 0).sum()) for trace in found),
        found[0].coin,
    )


@dataclass(frozen=True)
class Margin:
    """How far the best token is ahead of the second: difference of logits, which is ln(p1 / p2) at temperature 1."""

    best: int
    second: int
    difference: float


def greedy_margin(logits: FloatArray) -> Margin:
    """logits: [V], V at least 2. Lowest id first of equals, as greedy takes it."""
    best = int(np.argmax(logits))
    others = logits.copy()
    others[best] = -np.inf
    second = int(np.argmax(others))
    return Margin(best, second, float(logits[best]) - float(logits[second]))
