"""The heart of BPE: of all neighbours that a rule merges, the pair of lowest rank merges first, of equals the leftmost.

A heap holds the pairs and a linked list the parts, so of a piece of n bytes at most 3 n pairs go through the heap, also
if it is one letter 100,000 times. Looking at all pairs again for each merge would take n squared.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

Ranks = Mapping[tuple[str, str], int]  # pair of parts -> rank of its rule; the lower, the earlier it was learned


@dataclass(frozen=True, slots=True)
class MergeStep:
    """The part that begins at symbol `at` takes in its right neighbour, by the rule of this rank.

    rank_before, rank_after: of the two pairs that the merged part then makes with its neighbours; None: no rule.
    """

    rank: int
    at: int
    left: str
    right: str
    rank_before: int | None
    rank_after: int | None


@dataclass(frozen=True)
class Merging:
    """ranks: of the n - 1 pairs at the start. parts: what no rule merges any further. operations: pairs put into
    the heap and taken out again, 6 n at most."""

    ranks: tuple[int | None, ...]
    steps: tuple[MergeStep, ...]
    parts: tuple[str, ...]
    operations: int


@dataclass(frozen=True)
class MergeState:
    """The parts before a step, the ranks of the pairs they make, and the pair that wins (None: no rule is left)."""

    parts: tuple[str, ...]
    ranks: tuple[int | None, ...]
    winner: int | None


def merge(symbols: Sequence[str], rank_of: Ranks) -> Merging:
    """Merge until no pair of neighbours has a rule. symbols: one character of the byte alphabet for each byte."""
    count = len(symbols)
    parts: list[str] = list(symbols)  # "" once a part was taken in
    before, after = list(range(-1, count - 1)), list(range(1, count + 1))
    ranks = tuple(rank_of.get(pair) for pair in itertools.pairwise(parts))
    heap = [(rank, at) for at, rank in enumerate(ranks) if rank is not None]
    current = [*ranks, None]  # the rank of the pair that begins at each part, as it is now
    operations = len(heap)
    heapq.heapify(heap)
    steps: list[MergeStep] = []

    def renew(at: int) -> int | None:
        """Look up the pair that begins at `at` anew; at -1 there is none."""
        nonlocal operations
        if at < 0:
            return None
        rank = current[at] = rank_of.get((parts[at], parts[after[at]])) if after[at] < count else None
        if rank is not None:
            heapq.heappush(heap, (rank, at))
            operations += 1
        return rank

    while heap:
        rank, at = heapq.heappop(heap)
        operations += 1
        if current[at] != rank:
            continue  # one of the two has been merged with another part since
        right = after[at]
        left_text, right_text = parts[at], parts[right]
        parts[at], parts[right] = left_text + right_text, ""
        current[right] = None
        after[at] = after[right]
        if after[at] < count:
            before[after[at]] = at
        steps.append(MergeStep(rank, at, left_text, right_text, renew(before[at]), renew(at)))
    return Merging(ranks, tuple(steps), tuple(filter(None, parts)), operations)


def states(symbols: Sequence[str], merging: Merging) -> Iterator[MergeState]:
    """What each step found, and what was left after the last: one state more than steps."""
    places = list(range(len(symbols)))  # where each part begins
    parts, ranks = list(symbols), list(merging.ranks)
    for step in merging.steps:
        winner = places.index(step.at)
        yield MergeState(tuple(parts), tuple(ranks), winner)
        parts[winner : winner + 2] = [step.left + step.right]
        del places[winner + 1]
        del ranks[winner]
        if winner > 0:
            ranks[winner - 1] = step.rank_before
        if winner < len(ranks):
            ranks[winner] = step.rank_after
    yield MergeState(tuple(parts), tuple(ranks), None)
