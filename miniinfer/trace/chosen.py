"""How a step chose its token, read from the stages that really ran: for programs whose stages were replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from miniinfer.trace.records import FloatArray, NextToken, TokenInfo
from miniinfer.trace.sampling.candidates import next_token_of

if TYPE_CHECKING:
    from torch import Tensor

    from miniinfer.engine.sampler import SamplerStage
    from miniinfer.engine.stage import Stage
    from miniinfer.engine.state import StepState


@dataclass(frozen=True)
class Chosen:
    """next_token: the distribution and the draw. processed [V]: softmax of what the processors left, even if greedy."""

    next_token: NextToken
    processed: FloatArray


class ChoiceWatch:
    """Observer of one step of one sequence: keeps what each logits processor left.

    `sampler_trace` would compute the stages again, healthy ones; this one sees what a replaced stage did.
    """

    def __init__(self) -> None:
        self._stages: list[SamplerStage] = []
        self._cut_by: Tensor | None = None
        self._before: Tensor | None = None

    def __call__(self, stage: Stage, state: StepState) -> None:
        if not state.sample_rows:
            return
        if stage.name == "unembed":
            self._before = state.logits[0]
        elif stage.processor is not None:
            self._processed(stage.processor, state)

    def _processed(self, processor: int, state: StepState) -> None:
        import torch

        from miniinfer.engine.sampler import KEPT, SamplerStage

        order = state.scheduled[state.sample_seqs[0]].seq.params.order
        if processor >= len(order) or self._before is None:
            return
        after = state.logits[0]
        if self._cut_by is None:
            self._cut_by = torch.full_like(after, KEPT, dtype=torch.int8)
        self._cut_by = self._cut_by.masked_fill(after.isneginf() & ~self._before.isneginf(), processor)
        self._stages.append(SamplerStage(order[processor], after))
        self._before = after

    def chosen(self, state: StepState, describe: Callable[[int], TokenInfo]) -> Chosen | None:
        """After the step: how it chose. None if it chose no token."""
        import torch

        from miniinfer.engine.sampler import KEPT, SamplerTrace, land

        if not state.token_ids or state.token_ids[0] < 0:
            return None
        probs, coin = state.probs[0], state.coins[0]
        cut_by = torch.full_like(probs, KEPT, dtype=torch.int8) if self._cut_by is None else self._cut_by
        token_id, lo, hi = land(probs, coin)
        raw = state.raw_logits[0].softmax(-1)
        trace = SamplerTrace(tuple(self._stages), raw, probs, cut_by, token_id, coin, lo, hi)
        temperature = state.scheduled[state.sample_seqs[0]].seq.params.temperature
        found = next_token_of(trace, temperature, describe, chosen=state.token_ids[0], forced=False)
        return Chosen(found, state.logits[0].softmax(-1).cpu().numpy())
