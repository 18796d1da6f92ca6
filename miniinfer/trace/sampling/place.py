"""One place of a live run's output: what the sampler is given there, so that other settings can be tried on it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from miniinfer.config import SamplingParams
from miniinfer.trace.live_run import LiveRun

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Place:
    """logits: [V] float32 as the model gave them, from the kept final-norm vector. params: the step's own settings.

    token_id: what the run took here, drawn or forced.
    """

    step: int
    logits: torch.Tensor
    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    params: SamplingParams
    token_id: int
    forced: bool
    logprob: float | None


def step_of_output(run: LiveRun, index: int) -> int | None:
    """The step that chose output token `index`, counted from 0; None if the run has not come that far."""
    chosen = (meta.step for meta in run.steps if meta.token_id is not None)
    return next(itertools.islice(chosen, index, None), None)


def place_of(run: LiveRun, step: int) -> Place | None:
    """Where step `step` chose its token; None before the first step and while a prefill is unfinished."""
    if not 1 <= step <= len(run.steps):
        return None
    meta = run.steps[step - 1]
    if meta.token_id is None:
        return None
    ids, prompt = run.seq.token_ids[: meta.context_len], run.info.num_prompt_tokens
    return Place(
        step, run.logits_at(meta.context_len - 1), tuple(ids[:prompt]), tuple(ids[prompt:]), run.params_of(step),
        meta.token_id, meta.forced, meta.logprob,
    )
