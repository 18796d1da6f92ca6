"""How one token was chosen, over the whole vocabulary, as plain numpy: what each stage of the sampler left.

`sampling_of` is one pass of `engine.sampler.sampler_trace` with its figures taken; torch is needed to make a record and
not to read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from miniinfer.config import PROCESSOR_NAMES, SamplingParams
from miniinfer.trace.records import FloatArray

if TYPE_CHECKING:
    import torch

RAW, FINAL = "logits", "softmax"  # names of the first and the last stage; between them stand params.order

ORDERS: dict[str, tuple[str, ...]] = {
    "temperature before the filters": PROCESSOR_NAMES,
    "temperature after the filters": (
        "repetition", "presence_frequency", "top_k", "top_p", "min_p", "temperature",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class StageView:
    """The distribution after one stage.

    logits, probs: [V] float32, minus infinity and 0 for what is cut. num_cut, mass_cut: tokens that this stage cut and
    the probability that they had before it. mass_moved: half the sum of |after - before|, the part of the probability
    that changed hands; of a filter this is mass_cut. entropy: in nats. off: the stage changed nothing, not even a bit.
    """

    name: str
    logits: FloatArray
    probs: FloatArray
    num_kept: int
    num_cut: int
    mass_cut: float
    mass_moved: float
    entropy: float
    off: bool


@dataclass(frozen=True)
class Sampling:
    """stages: the raw logits, one for each name in params.order, and the softmax whose probabilities are drawn from.

    cut_by: [V] index into params.order of the stage that cut the token, -1 if none did. lo <= coin < hi is the drawn
    token's place on the cumulative bar, which runs in `order`.
    """

    params: SamplingParams
    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    stages: tuple[StageView, ...]
    cut_by: NDArray[np.int8]
    order: NDArray[np.int64]  # all ids, best first: by falling used, then raw probability
    token_id: int
    coin: float
    lo: float
    hi: float

    @property
    def raw(self) -> StageView:
        return self.stages[0]

    @property
    def used(self) -> StageView:
        return self.stages[-1]

    @property
    def vocab_size(self) -> int:
        return len(self.raw.probs)

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """[V] the place of each id in `order`, from 0."""
        places = np.empty_like(self.order)
        places[self.order] = np.arange(len(self.order))
        return places

    def rank_before(self, token_id: int, stage: int) -> int:
        """The token's rank, from 1, among what reached params.order[stage]; of equals the lowest ids come first."""
        ranks = self._ranks.get(stage)
        if ranks is None:
            order = np.argsort(-self.stages[stage].logits, kind="stable")
            ranks = self._ranks[stage] = np.empty_like(order)
            ranks[order] = np.arange(1, len(order) + 1)
        return int(ranks[token_id])

    @cached_property
    def _ranks(self) -> dict[int, NDArray[np.int64]]:
        """By stage, [V]: sorted once, for a table may ask for all tokens."""
        return {}

    @cached_property
    def entropies(self) -> tuple[float, ...]:
        """In nats, one for each stage."""
        return tuple(stage.entropy for stage in self.stages)


def sampling_of(
    logits: torch.Tensor,
    params: SamplingParams,
    prompt_ids: Sequence[int] = (),
    output_ids: Sequence[int] = (),
    coin: float | None = None,
) -> Sampling:
    """Choose from raw logits [V] as the engine does and keep every stage. Raises NotFiniteError.

    Without a coin, the one that belongs to this place of the output.
    """
    import torch

    from miniinfer.engine.sampler import sampler_trace

    with torch.inference_mode():
        trace = sampler_trace(logits, params, prompt_ids, output_ids, coin)
        raw = logits.float().cpu()
        stages = [_view(RAW, raw, trace.raw_probs, None)]
        for stage in trace.stages:
            stages.append(_next_view(stage.name, stage.logits, stages[-1]))
        if params.greedy:
            stages.append(_view(FINAL, torch.from_numpy(stages[-1].logits), trace.probs, stages[-1]))
        else:
            stages.append(_same(FINAL, stages[-1]))
        return Sampling(
            params, tuple(prompt_ids), tuple(output_ids), tuple(stages), trace.cut_by.numpy(), trace.order.numpy(),
            trace.token_id, trace.coin, trace.lo, trace.hi,
        )


def _next_view(name: str, logits: torch.Tensor, before: StageView) -> StageView:
    import torch

    if logits.data_ptr() == before.logits.ctypes.data:
        return _same(name, before)
    return _view(name, logits, torch.softmax(logits, -1), before)


def _same(name: str, before: StageView) -> StageView:
    return StageView(name, before.logits, before.probs, before.num_kept, 0, 0.0, 0.0, before.entropy, off=True)


def _view(name: str, logits: torch.Tensor, probs: torch.Tensor, before: StageView | None) -> StageView:
    values: FloatArray = logits.numpy()
    after: FloatArray = probs.numpy()
    kept = int(np.count_nonzero(after if name == FINAL else values != -np.inf))
    if before is None:
        return StageView(name, values, after, kept, 0, 0.0, 0.0, _entropy(after), off=False)
    cut = before.num_kept - kept
    gone = float(before.probs.sum(where=after == 0, dtype=np.float64)) if cut else 0.0
    moved = float(np.abs(after - before.probs).sum(dtype=np.float64)) / 2
    return StageView(name, values, after, kept, cut, gone, moved, _entropy(after), off=False)


def _entropy(probs: FloatArray) -> float:
    """In nats."""
    kept = probs[probs > 0]
    return 0.0 - float((kept * np.log(kept)).sum(dtype=np.float64))  # 0 of one token, not minus 0
