"""What of a step is small and cannot be computed again: what was chosen, how, and how long it took."""

from __future__ import annotations

from dataclasses import dataclass

from miniinfer.config import SamplingParams
from miniinfer.trace.records import StepRecord


@dataclass(frozen=True)
class KnownStep:
    """A step of the first run: what went through the model, what was chosen with which settings, and how long it took
    (ms). token_id, logprob, coin: None while a prefill was unfinished."""

    num_scheduled: int
    step_ms: float
    stage_ms: dict[str, float]
    token_id: int | None
    forced: bool
    logprob: float | None
    coin: float | None
    params: SamplingParams
    recording_ms: float | None = None  # None in runs that were saved before it was kept

    @classmethod
    def of(cls, record: StepRecord, params: SamplingParams) -> KnownStep:
        """Of a run that steps alone."""
        part = record.sequences[0]
        return cls(
            part.num_scheduled, record.step_ms, dict(record.stage_ms), part.token_id, part.forced, part.logprob,
            part.coin, params, record.recording_ms,
        )
