"""Two next-token distributions of the same place, before and after a what-if: what moved, in plain numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from miniinfer.trace.records import FloatArray

NOTHING = 1e-5  # of probability: what rounding may move between steps of other shapes


@dataclass(frozen=True)
class Shift:
    """before, after: [V] the model's own probabilities (softmax of the raw logits, no settings of the sampler)."""

    before: FloatArray
    after: FloatArray

    @property
    def change(self) -> FloatArray:
        """[V] after - before."""
        result: FloatArray = self.after - self.before
        return result

    @property
    def moved(self) -> float:
        """The part of the probability that changed hands: half the sum of |after - before|."""
        return float(np.abs(self.change).sum(dtype=np.float64)) / 2

    @property
    def divergence(self) -> float:
        """KL(before || after) in nats; inf where a token that had probability has none."""
        kept = self.before > 0
        with np.errstate(divide="ignore"):
            ratio = np.log(self.before[kept].astype(np.float64)) - np.log(self.after[kept].astype(np.float64))
        return float((self.before[kept] * ratio).sum())

    def leaders(self, count: int) -> list[int]:
        """The likeliest tokens before and the largest movers, half of each, ordered by falling probability before."""
        ranked = _largest(self.before, count)
        best = ranked[: count - count // 2]
        movers = [i for i in self.movers(count) if i not in best and abs(self.change[i]) >= NOTHING]
        others = [i for i in ranked if i not in best and i not in movers]
        chosen = [*best, *movers, *others][:count]
        return sorted(chosen, key=lambda i: (-float(self.before[i]), i))

    def movers(self, count: int) -> list[int]:
        """The tokens that gained or lost most."""
        return _largest(np.abs(self.change), count)

    def rank(self, token_id: int, *, after: bool = False) -> int:
        """From 1; of equals the lowest id comes first."""
        probs = self.after if after else self.before
        mine = probs[token_id]
        return int((probs > mine).sum() + (probs[:token_id] == mine).sum()) + 1


def shift_of(before: object, after: object) -> Shift:
    """From two rows of raw logits, tensors [V]."""
    import torch

    assert isinstance(before, torch.Tensor)
    assert isinstance(after, torch.Tensor)
    return Shift(*(row.float().softmax(-1).cpu().numpy() for row in (before, after)))


def moved_by_rows(before: object, rows: object) -> tuple[FloatArray, NDArray[np.int64]]:
    """before [V], rows [n, V], raw logits -> ([n] probability moved by each row, [n] its likeliest token)."""
    import torch

    assert isinstance(before, torch.Tensor)
    assert isinstance(rows, torch.Tensor)
    probs = rows.float().softmax(-1)
    moved = (probs - before.float().softmax(-1)).abs().sum(-1) / 2
    return moved.cpu().numpy(), probs.argmax(-1).cpu().numpy()


def _largest(values: FloatArray, count: int) -> list[int]:
    count = min(count, len(values))
    found = np.argpartition(-values, count - 1)[:count].tolist()
    return sorted(found, key=lambda i: (-float(values[i]), i))
