"""The sums of a batch run, kept from step to step: what batch/view.py works out of all steps, for the newest one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from miniinfer.trace.batch.records import BatchRow, BatchStep, BatchTotals
from miniinfer.trace.batch.settings import BatchRequest


@dataclass(frozen=True)
class RequestSums:
    """One request so far; the fields mean what they do in `RequestView`."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    num_outputs: int = 0
    num_preemptions: int = 0
    num_cached: int = 0
    num_recomputed: int = 0
    finish_reason: str | None = None


@dataclass(frozen=True)
class StepSums:
    """requests: in the order of the run. totals: of all steps so far."""

    requests: tuple[RequestSums, ...]
    totals: BatchTotals


class BatchTally:
    """`add` every step in turn. Its work does not grow with the steps that went before."""

    def __init__(self, requests: Sequence[BatchRequest], refused: Sequence[str], block_bytes: int) -> None:
        self._requests = tuple(requests)
        self._block_bytes = block_bytes
        self._sums = {
            r.request_id: RequestSums(finish_reason="abort" if r.request_id in refused else None) for r in requests
        }
        self._arrived_ms = {r.request_id: 0.0 for r in requests if r.arrival == 0}
        self._first_ms: dict[str, float] = {}
        self._totals = BatchTotals(0, 0.0, 0, None, 0, 0, 0, 0, 0, 0, 0, 0, 0)

    def add(self, step: BatchStep) -> StepSums:
        """The sums after this step, which is the one after the last that was added."""
        for row in step.rows:
            self._sums[row.request_id] = self._after(row, step.end_ms)
        for name in step.preempted:
            old = self._sums[name]
            self._sums[name] = replace(old, num_preemptions=old.num_preemptions + 1)
        for request in self._requests:
            if request.arrival == step.step:
                self._arrived_ms[request.request_id] = step.end_ms
        t, new = self._totals, self._totals.num_new_tokens + step.num_new_tokens
        peak = max(t.peak_blocks, step.blocks.num_used)
        self._totals = BatchTotals(
            steps=step.step,
            wall_ms=step.end_ms,
            num_new_tokens=new,
            tok_s=new / step.end_ms * 1000 if step.end_ms > 0 else None,
            num_tokens=t.num_tokens + step.num_tokens,
            padding_slots=t.padding_slots + step.padding_slots,
            idle_slots=t.idle_slots + step.idle_slots,
            num_recomputed=t.num_recomputed + step.num_recomputed,
            num_cached=t.num_cached + step.num_cached,
            num_preemptions=t.num_preemptions + len(step.preempted),
            peak_blocks=peak,
            peak_block_bytes=peak * self._block_bytes,
            num_finished=t.num_finished + sum(row.finish_reason is not None for row in step.rows),
        )
        return StepSums(tuple(self._sums[r.request_id] for r in self._requests), self._totals)

    def _after(self, row: BatchRow, now_ms: float) -> RequestSums:
        name, old = row.request_id, self._sums[row.request_id]
        num_outputs, ttft_ms, tpot_ms = old.num_outputs, old.ttft_ms, old.tpot_ms
        if row.token is not None:
            num_outputs += 1
            first = self._first_ms.setdefault(name, now_ms)
            if num_outputs == 1:
                ttft_ms = now_ms - self._arrived_ms[name]
            else:
                tpot_ms = (now_ms - first) / (num_outputs - 1)
        return RequestSums(
            ttft_ms, tpot_ms, num_outputs, old.num_preemptions, old.num_cached + row.num_cached,
            old.num_recomputed + row.num_recomputed, old.finish_reason or row.finish_reason,
        )  # fmt: skip
