"""What is left of a batch run once its records are let go: its sums, its requests, and a lane each. No torch."""

from __future__ import annotations

from dataclasses import dataclass

from miniinfer.trace.batch.records import BatchTotals, BatchTrace, LaneState, RequestView
from miniinfer.trace.batch.settings import BatchSettings
from miniinfer.trace.batch.view import longest_request, requests_at, totals_at


@dataclass(frozen=True)
class LanePart:
    """Neighbouring steps in which a request did the same. first, last: steps; start_ms, end_ms: engine time.

    slots: computed for it; wasted: those of them that were padding or idle.
    """

    request_id: str
    state: LaneState
    first: int
    last: int
    start_ms: float
    end_ms: float
    slots: int
    wasted: int


@dataclass(frozen=True)
class BatchOutcome:
    """The same requests under one choice of settings, run to their end."""

    settings: BatchSettings
    totals: BatchTotals
    requests: tuple[RequestView, ...]
    longest: str | None
    lanes: tuple[LanePart, ...]
    num_blocks: int
    block_bytes: int

    @property
    def computed_slots(self) -> int:
        """All slots that went through the model: tokens, padding and idle rows."""
        return self.totals.num_tokens + self.totals.wasted_slots

    @property
    def wasted_share(self) -> float:
        return self.totals.wasted_slots / self.computed_slots if self.computed_slots else 0.0


def outcome_of(trace: BatchTrace) -> BatchOutcome:
    """Pure function of a trace, usually of a finished run."""
    last = len(trace.steps)
    return BatchOutcome(
        settings=trace.settings,
        totals=totals_at(trace, last),
        requests=requests_at(trace, last),
        longest=longest_request(trace),
        lanes=tuple(part for request in trace.requests for part in lane_parts(trace, request.request_id)),
        num_blocks=trace.num_blocks,
        block_bytes=trace.block_bytes,
    )


def lane_parts(trace: BatchTrace, request_id: str) -> list[LanePart]:
    """The lane of one request, neighbouring steps of the same state as one part. Raises nothing for an empty trace."""
    parts: list[LanePart] = []
    for step in trace.steps:
        state, row = step.states[request_id], step.row(request_id)
        wasted = row.num_padding if row is not None else 0
        slots = wasted + (row.num_tokens if row is not None else 0)
        if parts and parts[-1].state is state and state is not LaneState.PREFILL:
            old = parts.pop()
            parts.append(
                LanePart(
                    request_id, state, old.first, step.step, old.start_ms, step.end_ms, old.slots + slots,
                    old.wasted + wasted,
                )
            )  # fmt: skip
        else:
            begin = step.end_ms - step.step_ms
            parts.append(LanePart(request_id, state, step.step, step.step, begin, step.end_ms, slots, wasted))
    return parts
