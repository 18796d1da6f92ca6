"""Two tokenizers on the same text: where both end a token, and what each makes of the stretches between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from miniinfer.tokenization.encoding import TokenPlace


@dataclass(frozen=True)
class Boundary:
    """A stretch of the text, byte offsets start to end, at whose ends both tokenizers cut and inside of which they
    never do so at the same place. a, b: the visible texts of its tokens."""

    start: int
    end: int
    a: tuple[str, ...]
    a_ids: tuple[int, ...]
    b: tuple[str, ...]
    b_ids: tuple[int, ...]

    @property
    def same(self) -> bool:
        """Both take it as one token."""
        return len(self.a) == len(self.b) == 1


def side_by_side(a: Sequence[TokenPlace], b: Sequence[TokenPlace]) -> list[Boundary]:
    """The whole text in stretches. Both must be of the same bytes."""
    ends = sorted({t.end for t in a} & {t.end for t in b})
    found, start, i, j = [], 0, 0, 0
    for end in ends:
        first_a, first_b = i, j
        while i < len(a) and a[i].end <= end:
            i += 1
        while j < len(b) and b[j].end <= end:
            j += 1
        left, right = a[first_a:i], b[first_b:j]
        found.append(Boundary(
            start, end, tuple(t.shown for t in left), tuple(t.token_id for t in left),
            tuple(t.shown for t in right), tuple(t.token_id for t in right),
        ))  # fmt: skip
        start = end
    return found
