"""From logits to one token: the coin, the draw, and the same thing with every stage kept for a panel. Pure functions.

A token is drawn by *inverse CDF*: the tokens stand side by side in order of falling probability (of equal ones the
lowest id first), each as wide as its probability, and the coin in [0, 1) is the place where it lands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miniinfer.config import SamplingParams
from miniinfer.engine.logits import PROCESSED, RAW, not_finite_rows, process
from miniinfer.errors import BadInputError

KEPT = -1  # in SamplerTrace.cut_by
LAST_ID = 2**32 - 1
ONES = 2**64 - 1
PHILOX_FACTORS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
PHILOX_STEPS = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B


def coin(seed: int, index: int) -> float:
    """The coin of output token `index`: a number in [0, 1) that depends on nothing but these two.

    Counter-based (Philox): no generator has a state that could be lost or shared.
    """
    return (philox(seed, index + 1) >> 11) * 2.0**-53


def philox(key: int, counter: int) -> int:
    """The first 64 bits of Philox 4x64 with ten rounds, as numpy's generator gives them after counting up: making one
    there takes ten times as long."""
    first, second, third, fourth = counter & ONES, counter >> 64, 0, 0
    round_key, other_key = key, 0
    for _ in range(10):
        low, high = first * PHILOX_FACTORS[0], third * PHILOX_FACTORS[1]
        first, second = (high >> 64) ^ second ^ round_key, high & ONES
        third, fourth = (low >> 64) ^ fourth ^ other_key, low & ONES
        round_key, other_key = (round_key + PHILOX_STEPS[0]) & ONES, (other_key + PHILOX_STEPS[1]) & ONES
    return first


def probabilities(logits: Tensor, params: SamplingParams) -> Tensor:
    """Softmax of processed logits [V] -> [V] float32. Greedy: 1 for the best token (lowest id of equals), else 0."""
    if params.greedy:
        return torch.zeros_like(logits).index_fill_(0, logits.argmax(), 1.0)
    return torch.softmax(logits, dim=-1)


def logprob(probs: Tensor, token_id: int) -> float:
    """Natural logarithm of the probability under which a token was drawn: 0.0 when greedy."""
    return math.log(probs[token_id].item())


def draw(probs: Tensor, coin: float) -> int:
    """The token on which the coin lands. probs: [V] float32 on the CPU. Never one of probability 0."""
    return land(probs, coin)[0]


def land(probs: Tensor, coin: float) -> tuple[int, float, float]:
    """The token on which the coin lands, and the interval lo <= coin < hi that is its place on the bar."""
    order = falling_order(probs)
    ends = np.cumsum(probs.numpy()[order], dtype=np.float64)
    place = int(np.searchsorted(ends, coin * ends[-1], side="right"))
    place = min(place, len(order) - 1)  # coin * total may be rounded up to the total
    lo = ends[place - 1] if place else 0.0
    return int(order[place]), float(lo / ends[-1]), float(ends[place] / ends[-1])


def falling_order(probs: Tensor) -> NDArray[np.int64]:
    """The ids of the tokens with a probability above 0, best first, of equal ones the lowest id first.

    One sort of whole numbers, several times faster than a stable sort of floats: the bits of a float32 that is not
    negative rise as the number does, and below them stands the id, counted down.
    """
    values = probs.numpy()
    ids = np.flatnonzero(values > 0)  # of truth values: a tenth of the time that it takes of numbers
    keys = values[ids].view(np.uint32).astype(np.uint64) << 32 | (LAST_ID - ids).astype(np.uint64)
    return LAST_ID - (np.sort(keys)[::-1] & LAST_ID).astype(np.int64)


@dataclass(frozen=True)
class SamplerStage:
    """What one logits processor left: logits [V] float32, minus infinity for a token it (or one before it) cut."""

    name: str
    logits: Tensor


@dataclass(frozen=True)
class SamplerTrace:
    """How one token was chosen, over the whole vocabulary."""

    stages: tuple[SamplerStage, ...]  # one for each name in params.order
    raw_probs: Tensor  # [V] softmax of the logits as the model gave them
    probs: Tensor  # [V] what the draw used
    cut_by: Tensor  # [V] int8: index of the stage that cut the token, KEPT if none did (greedy cuts nothing)
    token_id: int
    coin: float
    lo: float  # the token's place on the cumulative bar over `order`: lo <= coin < hi
    hi: float

    @cached_property
    def order(self) -> Tensor:
        """All ids [V] from best to worst: by falling probs, those of probability 0 by falling raw_probs."""
        return _ranking(self.probs, self.raw_probs)


@torch.inference_mode()
def sampler_trace(
    logits: Tensor,
    params: SamplingParams,
    prompt_ids: Sequence[int] = (),
    output_ids: Sequence[int] = (),
    coin: float | None = None,
) -> SamplerTrace:
    """Choose the next token from raw logits [V] as the engine does, and keep every stage.

    Without a coin, the one that belongs to this place of the output. Raises NotFiniteError, and BadInputError for
    logits that are not one row, a coin outside [0, 1), and ids outside the row.
    """
    _check(logits, (*prompt_ids, *output_ids), coin)
    raw = logits.float().cpu()
    current = _finite(raw, RAW)
    processed: list[Tensor] = []
    for name in params.order:
        current = process(name, current, params, prompt_ids, output_ids)
        processed.append(current)
    probs = probabilities(_finite(current, PROCESSED), params)
    return trace_of(raw, params.order, processed, probs, coin_of(params, output_ids) if coin is None else coin)


@torch.inference_mode()
def trace_of(
    raw: Tensor, names: Sequence[str], processed: Sequence[Tensor], probs: Tensor, coin: float
) -> SamplerTrace:
    """The trace of a choice whose stages have been computed: raw logits [V], those that each processor left (the very
    tensor that it was given where it changed nothing), what the draw used, and its coin."""
    cut_by = torch.full_like(raw, KEPT, dtype=torch.int8)
    before = raw
    for index, after in enumerate(processed):
        if after is not before:
            cut_by = cut_by.masked_fill(after.isneginf() & ~before.isneginf(), index)
        before = after
    token_id, lo, hi = land(probs, coin)
    stages = tuple(SamplerStage(name, logits) for name, logits in zip(names, processed, strict=True))
    return SamplerTrace(stages, torch.softmax(raw, dim=-1), probs, cut_by, token_id, coin, lo, hi)


def _check(logits: Tensor, ids: Sequence[int], coin: float | None) -> None:
    if logits.ndim != 1 or not len(logits):
        raise BadInputError(f"Logits are one row, [V] with V at least 1, not of shape {list(logits.shape)}.")
    if coin is not None and not 0 <= coin < 1:
        raise BadInputError(f"A coin is at least 0 and below 1, not {coin}.")
    if ids and not (min(ids) >= 0 and max(ids) < len(logits)):
        raise BadInputError(f"The ids before a token must lie between 0 and {len(logits) - 1}, as the logits do.")


def coin_of(params: SamplingParams, output_ids: Sequence[int]) -> float:
    """The coin for the token that comes after these."""
    return coin(params.seed, len(output_ids))


def _finite(logits: Tensor, whose: str) -> Tensor:
    for error in not_finite_rows(logits[None], whose).values():
        raise error
    return logits


def _ranking(probs: Tensor, raw_probs: Tensor) -> Tensor:
    """All ids: those that can be drawn in the order of the bar, then the others by what the model gave them."""
    rest = raw_probs.masked_fill(probs > 0, 0.0)
    never = ((probs == 0) & (raw_probs == 0)).nonzero().flatten()
    return torch.cat((torch.from_numpy(falling_order(probs)), torch.from_numpy(falling_order(rest)), never))
