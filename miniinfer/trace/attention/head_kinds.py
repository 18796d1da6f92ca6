"""What a head does, told from its attention rows: how much of its weight goes where a known kind of head would look.

Plain numpy over rows that somebody else fetched. H heads of one layer or of all, n rows, C keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from miniinfer.trace.records import FloatArray

LOCAL = 8  # positions that count as near, the row's own included

# The kinds in the order in which a head is named: the first one whose threshold it reaches. The special ones stand
# before the plain ones; most heads park what they do not need on the first token.
KINDS = ("induction", "same token", "previous token", "itself", "local", "first token")
THRESHOLDS = {
    "induction": 0.3, "same token": 0.3, "previous token": 0.4, "itself": 0.4, "local": 0.5, "first token": 0.5,
}  # fmt: skip
MIXED = "mixed"
MEANINGS = {
    "induction": "on the token that followed an earlier occurrence of the row's own token",
    "same token": "on earlier positions that hold the row's own token",
    "previous token": "on the position right before the row's own",
    "itself": "on the row's own position",
    "local": f"on the last {LOCAL} positions, the row's own included; only rows that see at least {2 * LOCAL}",
    "first token": "on position 0",
}
# A mean over fewer rows says nothing. In a text that hardly repeats it is commas and articles that occur twice.
FEWEST_ROWS = {kind: 16 if kind in ("induction", "same token") else 4 for kind in KINDS}


@dataclass(frozen=True)
class HeadScores:
    """scores: kind -> [L, H] mean weight over the rows that count for it, NaN where fewer than FEWEST_ROWS do.
    rows: kind -> how many counted."""

    scores: dict[str, FloatArray]
    rows: dict[str, int]

    def kind_of(self, layer: int, head: int) -> str:
        """The head's name: the first of KINDS whose threshold it reaches, else "mixed"."""
        reached = (kind for kind in KINDS if self.scores[kind][layer, head] >= THRESHOLDS[kind])
        return next(reached, MIXED)


class Occurrences:
    """Where each token of a text stood before."""

    def __init__(self, token_ids: Sequence[int]) -> None:
        self._ids = np.asarray(token_ids, np.int64)

    def earlier(self, position: int) -> NDArray[np.intp]:
        """Positions before this one with the same token."""
        return np.flatnonzero(self._ids[:position] == self._ids[position])


def row_scores(rows: FloatArray, start: int, seen: Occurrences) -> FloatArray:
    """rows [H, n, C] of positions start.. -> [n, H, kinds]: the weight of each row on what each kind looks at.

    NaN where a row does not count: position 0 sees only itself, and not every token has occurred before.
    """
    num_heads, count = rows.shape[:2]
    found = np.full((count, num_heads, len(KINDS)), np.nan, np.float32)
    for n in range(count):
        position = start + n
        row = rows[:, n, : position + 1]
        if position == 0:
            continue
        found[n, :, KINDS.index("previous token")] = row[:, position - 1]
        found[n, :, KINDS.index("itself")] = row[:, position]
        found[n, :, KINDS.index("first token")] = row[:, 0]
        if position + 1 >= 2 * LOCAL:
            found[n, :, KINDS.index("local")] = row[:, -LOCAL:].sum(1)
        earlier = seen.earlier(position)
        if len(earlier):
            found[n, :, KINDS.index("same token")] = row[:, earlier].sum(1)
            followers = earlier[earlier + 1 < position] + 1  # else the row's own place, or the one right before it
            if len(followers):
                found[n, :, KINDS.index("induction")] = row[:, followers].sum(1)
    return found


def scores_of(values: FloatArray) -> HeadScores:
    """values [n, L, H, kinds] of n rows -> the means."""
    scores, rows = {}, {}
    for index, kind in enumerate(KINDS):
        mine = values[..., index]
        counts = ~np.isnan(mine).all((1, 2))
        rows[kind] = int(counts.sum())
        mean = mine[counts].mean(0) if rows[kind] >= FEWEST_ROWS[kind] else np.full(mine.shape[1:], np.nan)
        scores[kind] = mean.astype(np.float32)
    return HeadScores(scores, rows)
