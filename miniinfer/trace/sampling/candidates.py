"""From a sampler's trace to the few candidates a panel shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from miniinfer.trace.records import FloatArray, NextToken, TokenInfo

if TYPE_CHECKING:
    import torch

    from miniinfer.engine.sampler import SamplerTrace

NUM_CANDIDATES = 20


def next_token_of(
    trace: SamplerTrace, temperature: float, describe: Callable[[int], TokenInfo], *, chosen: int | None, forced: bool
) -> NextToken:
    """The best candidates of `trace`, cut ones among them, and `chosen` wherever it stands.

    lo, hi: its place on the cumulative bar, also where it was forced and the coin fell on another one.
    """
    raw: FloatArray = trace.raw_probs.float().cpu().numpy()
    used: FloatArray = trace.probs.float().cpu().numpy()
    cut = trace.cut_by.cpu().numpy()
    shown = _best(trace, NUM_CANDIDATES)
    if chosen is not None and chosen not in shown:
        shown[-1] = chosen
        shown = sorted(shown, key=lambda i: (-used[i], -raw[i], i))
    kept = int((used > 0).sum())
    lo, hi = trace.lo, trace.hi
    if forced and chosen is not None:
        before = (used > used[chosen]) | ((used == used[chosen]) & (np.arange(len(used)) < chosen))
        lo = float(used[before].sum(dtype=np.float64))
        hi = min(1.0, lo + float(used[chosen]))
    return NextToken(
        tokens=tuple(describe(i) for i in shown),
        raw_probs=tuple(float(raw[i]) for i in shown),
        used_probs=tuple(float(used[i]) for i in shown),
        cut_by=tuple(trace.stages[cut[i]].name if cut[i] >= 0 else None for i in shown),
        num_kept=kept,
        rest_count=len(raw) - len(shown),
        rest_raw=max(0.0, float(raw.sum(dtype=np.float64) - raw[shown].sum(dtype=np.float64))),
        rest_used=max(0.0, float(used.sum(dtype=np.float64) - used[shown].sum(dtype=np.float64))),
        entropy_raw=_entropy(raw),
        entropy_used=_entropy(used),
        temperature=temperature,
        greedy=temperature == 0,
        coin=trace.coin,
        lo=lo,
        hi=hi,
        token_id=chosen,
        forced=forced,
    )


def _best(trace: SamplerTrace, count: int) -> list[int]:
    """Ids in the order of falling used, then raw probability, then rising id."""
    used, raw = trace.probs, trace.raw_probs
    found = _leaders(used, count) | _leaders(raw, count)
    return sorted(found, key=lambda i: (-float(used[i]), -float(raw[i]), i))[:count]


def _leaders(probs: torch.Tensor, count: int) -> set[int]:
    """Ids of the `count` largest that are above 0, and of all that tie with the last of them."""
    least = probs.topk(min(count, len(probs))).values[-1]
    return set((probs >= least if least > 0 else probs > 0).nonzero().flatten().tolist())


def _entropy(probs: FloatArray) -> float:
    """In nats."""
    kept = probs[probs > 0].astype(np.float64)
    return float(-(kept * np.log(kept)).sum())
