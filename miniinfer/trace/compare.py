"""Two runs, or one step of two engines, held side by side: where they first differ, and by how much."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from miniinfer.trace.capture import StageTensor
from miniinfer.trace.records import NextToken, TokenInfo
from miniinfer.trace.run import Run


@dataclass(frozen=True)
class TokenPair:
    """The tokens two runs chose at one place of the output (index from 0), and what each draw gave its own token.

    margin: distance between the two best raw probabilities as log(p1 / p2), the smaller one of the two runs; below 0.01
    another order of summation may choose otherwise. used_difference: half the sum of |used a - used b| over the shown
    candidates, a lower bound of the total variation distance.
    """

    index: int
    a: TokenInfo | None
    b: TokenInfo | None
    a_prob: float | None
    b_prob: float | None
    margin: float | None
    used_difference: float | None

    @property
    def same(self) -> bool:
        return self.a is not None and self.b is not None and self.a.token_id == self.b.token_id


@dataclass(frozen=True)
class RunComparison:
    """first_difference: the first output index at which the tokens differ, None if one is a beginning of the other."""

    same_prompt: bool
    pairs: tuple[TokenPair, ...]

    @property
    def first_difference(self) -> int | None:
        return next((p.index for p in self.pairs if p.a is not None and p.b is not None and not p.same), None)

    @property
    def common(self) -> int:
        """Output tokens that are equal from the start on."""
        return next((p.index for p in self.pairs if not p.same), len(self.pairs))


def compare_runs(a: Run, b: Run) -> RunComparison:
    """Token by token, from the first output token to the end of the longer run."""
    return RunComparison(_same_prompt(a, b), compare_outputs(_outputs(a), _outputs(b)))


def compare_tokens(a: Run, b: Run) -> RunComparison:
    """The tokens alone: nothing is computed again from what was kept."""
    pairs = itertools.zip_longest(*(run.tokens[run.info.num_prompt_tokens :] for run in (a, b)))
    return RunComparison(
        _same_prompt(a, b), tuple(TokenPair(i, x, y, None, None, None, None) for i, (x, y) in enumerate(pairs))
    )


def _same_prompt(a: Run, b: Run) -> bool:
    first, second = ([t.token_id for t in run.tokens[: run.info.num_prompt_tokens]] for run in (a, b))
    return first == second


def compare_outputs(a: Sequence[NextToken], b: Sequence[NextToken]) -> tuple[TokenPair, ...]:
    """One pair for each place of the longer output; a, b: what each output token was chosen from."""
    return tuple(_pair(index, x, y) for index, (x, y) in enumerate(itertools.zip_longest(a, b)))


def _outputs(run: Run) -> list[NextToken]:
    found = [run.next_token(meta.step) for meta in run.steps if meta.token_id is not None]
    return [n for n in found if n is not None]


def _pair(index: int, a: NextToken | None, b: NextToken | None) -> TokenPair:
    margins = [m for m in (_margin(a), _margin(b)) if m is not None]
    return TokenPair(
        index, _chosen(a), _chosen(b), _prob(a), _prob(b), min(margins) if margins else None,
        _used_difference(a, b) if a is not None and b is not None else None,
    )


def _chosen(found: NextToken | None) -> TokenInfo | None:
    return next((t for t in found.tokens if t.token_id == found.token_id), None) if found else None


def _prob(found: NextToken | None) -> float | None:
    if found is None:
        return None
    return next((p for t, p in zip(found.tokens, found.used_probs, strict=True) if t.token_id == found.token_id), None)


def _margin(found: NextToken | None) -> float | None:
    if found is None or len(found.raw_probs) < 2:
        return None
    first, second = sorted(found.raw_probs, reverse=True)[:2]
    return math.log(first / second) if second > 0 else math.inf


def _used_difference(a: NextToken, b: NextToken) -> float:
    used_a = {t.token_id: p for t, p in zip(a.tokens, a.used_probs, strict=True)}
    used_b = {t.token_id: p for t, p in zip(b.tokens, b.used_probs, strict=True)}
    return sum(abs(used_a.get(i, 0.0) - used_b.get(i, 0.0)) for i in used_a.keys() | used_b.keys()) / 2


@dataclass(frozen=True)
class StageDifference:
    """Largest absolute difference of one tensor in two captures; inf where shapes differ or only one is finite."""

    stage: str
    layer: int | None
    name: str
    largest: float


@dataclass(frozen=True)
class StageComparison:
    """first: the first tensor, in the order of the program, that differs by more than the tolerance, if any."""

    first: StageDifference | None
    largest: StageDifference | None
    differences: tuple[StageDifference, ...]


def compare_stages(a: Sequence[StageTensor], b: Sequence[StageTensor], tolerance: float = 1e-3) -> StageComparison:
    """Two captures of the same step, tensor by tensor in the order of the program."""
    found = tuple(
        StageDifference(x.stage, x.layer, x.name, _largest(x, y))
        for x, y in zip(a, b, strict=False)
        if _same_place(x, y)
    )
    first = next((d for d in found if d.largest > tolerance), None)
    return StageComparison(first, max(found, key=lambda d: d.largest, default=None), found)


def _same_place(x: StageTensor, y: StageTensor) -> bool:
    return (x.stage, x.layer, x.name) == (y.stage, y.layer, y.name)


def _largest(x: StageTensor, y: StageTensor) -> float:
    if x.values.shape != y.values.shape:
        return math.inf
    if x.values.size == 0:
        return 0.0
    equal = (x.values == y.values) | (np.isnan(x.values) & np.isnan(y.values))  # also inf = inf
    with np.errstate(invalid="ignore"):
        difference = np.where(equal, 0, np.abs(x.values - y.values))
    return math.inf if np.isnan(difference).any() else float(difference.max())
