"""Logits processors: pure functions from logits [V] (float32, CPU) to new logits [V].

Each gives back the very tensor it was given when its setting is off. A token is cut by giving it minus infinity.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miniinfer.config import SamplingParams
from miniinfer.errors import NotFiniteError

CUT = float("-inf")
RAW, PROCESSED = "The model's logits", "The logits that the processors left"
# How far below the best one looks for the others before the whole vocabulary is sorted.
FIRST_WINDOWS = (6.0, 12.0)
# float32 has no quotient by anything smaller, nor a reciprocal of anything larger.
TEMPERATURE_LIMITS = (1e-30, 1e30)

Processor = Callable[[Tensor, SamplingParams, Sequence[int], Sequence[int]], Tensor]


def process(
    name: str, logits: Tensor, params: SamplingParams, prompt_ids: Sequence[int], output_ids: Sequence[int]
) -> Tensor:
    """Apply the processor of this name (config.PROCESSOR_NAMES) with the sequence's settings."""
    return PROCESSORS[name](logits, params, prompt_ids, output_ids)


def not_finite_rows(logits: Tensor, whose: str) -> Mapping[int, NotFiniteError]:
    """The rows of logits [R, V] from which no token can be drawn: with a NaN, with plus infinity, or all cut.

    whose: what the sentence of the error begins with.
    """
    if logits.shape[0] == 0:
        return {}
    return {
        r: NotFiniteError(f"{whose} are not usable (the best is {best}), so no token can be drawn.")
        for r, best in enumerate(logits.amax(-1).tolist())  # NaN if any of the row is
        if not math.isfinite(best)
    }


def repetition(logits: Tensor, penalty: float, seen_ids: Sequence[int]) -> Tensor:
    """Make the ids that were seen less likely, once each: divide a logit above 0, multiply one below."""
    if penalty == 1 or not seen_ids:
        return logits
    ids = torch.tensor(sorted(set(seen_ids)), device=logits.device)
    seen = logits[ids]
    return logits.index_copy(0, ids, torch.where(seen > 0, seen / penalty, seen * penalty))


def presence_frequency(logits: Tensor, presence: float, frequency: float, output_ids: Sequence[int]) -> Tensor:
    """Take `presence` off the logit of each id in the output, and `frequency` once for each time it stands there."""
    if (presence == 0 and frequency == 0) or not output_ids:
        return logits
    counts = Counter(output_ids)
    ids = torch.tensor(list(counts), device=logits.device)
    times = torch.tensor(list(counts.values()), dtype=logits.dtype, device=logits.device)
    return logits.index_add(0, ids, -(presence + frequency * times))


def temperature(logits: Tensor, value: float) -> Tensor:
    """Divide by the temperature: below 1 the best gain, above 1 the others do. 0 means greedy and changes nothing."""
    if value in (0, 1):
        return logits
    smallest, largest = TEMPERATURE_LIMITS
    if value < smallest:  # the best moves to 0, which changes no probability, so that no quotient overflows
        logits = logits - logits.amax()
    return logits / min(max(value, smallest), largest)


def top_k(logits: Tensor, k: int) -> Tensor:
    """Keep the k best; of equal ones at the edge the lowest ids. 0, and the vocabulary or more, keep all."""
    if k == 0 or k >= len(logits):
        return logits
    return _keep_best(logits, k, threshold=logits.topk(k).values[-1].item())


def top_p(logits: Tensor, p: float) -> Tensor:
    """Keep the smallest set of best tokens whose probabilities reach p together, and always the best one."""
    if p >= 1:
        return logits
    # Sums in float64, relative to the best: rounding in float32 moves the end of a long tail by several tokens.
    values = logits.numpy()  # numpy takes half as long as torch for so few
    top = values.max()
    with np.errstate(invalid="ignore"):  # a penalty may have made a logit infinite: what that leaves is refused later
        goal = p * np.exp(values - top).sum(dtype=np.float64)
        # Almost always the set ends not far below the best; those few are found and sorted sooner than the vocabulary.
        for window in (*FIRST_WINDOWS, math.inf):
            best = _best_logits(values, window)
            reached = np.exp(best - top).cumsum(dtype=np.float64) >= goal
            if reached[-1]:
                last = int(reached.argmax())  # the first rank that reaches p is the last one kept
                return _keep_best(logits, last + 1, threshold=float(best[last]))
    return logits  # rounding: all of them together stay just below p


def min_p(logits: Tensor, p: float) -> Tensor:
    """Keep the tokens at least p times as likely as the best one."""
    if p == 0:
        return logits
    ratio = torch.exp(logits - logits.amax())  # probability, relative to the best
    return logits.masked_fill(ratio < p, CUT)


def _best_logits(values: NDArray[np.float32], window: float) -> NDArray[np.float32]:
    """Those that are at most `window` below the best, falling."""
    near = values if math.isinf(window) else values[np.flatnonzero(values >= values.max() - window)]
    return np.sort(near)[::-1]


def _keep_best(logits: Tensor, num_kept: int, threshold: float) -> Tensor:
    """Cut all but the num_kept best. threshold: the logit of the last one kept; of its equals the lowest ids stay."""
    values = logits.numpy()
    ids = np.flatnonzero(values >= threshold)
    if len(ids) > num_kept:
        equal_ids = ids[values[ids] == threshold]
        ids = np.setdiff1d(ids, equal_ids[num_kept - len(ids) :], assume_unique=True)
    kept = np.full_like(values, CUT)
    kept[ids] = values[ids]
    return torch.from_numpy(kept)


PROCESSORS: Mapping[str, Processor] = {
    "repetition": lambda logits, params, prompt, output: repetition(
        logits, params.repetition_penalty, [*prompt, *output]
    ),
    "presence_frequency": lambda logits, params, prompt, output: presence_frequency(
        logits, params.presence_penalty, params.frequency_penalty, output
    ),
    "temperature": lambda logits, params, prompt, output: temperature(logits, params.temperature),
    # At temperature 0 the best token is taken in any case, so the filters have nothing to do.
    "top_k": lambda logits, params, prompt, output: logits if params.greedy else top_k(logits, params.top_k),
    "top_p": lambda logits, params, prompt, output: logits if params.greedy else top_p(logits, params.top_p),
    "min_p": lambda logits, params, prompt, output: logits if params.greedy else min_p(logits, params.min_p),
}
