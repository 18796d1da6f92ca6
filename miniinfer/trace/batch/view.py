"""A batch run as it stood after some step: each request, and the sums. Pure functions of a `BatchTrace`."""

from __future__ import annotations

from miniinfer.engine.finish import cut_at_stop
from miniinfer.trace.batch.records import BatchRow, BatchTotals, BatchTrace, LaneState, RequestView


def request_at(trace: BatchTrace, request_id: str, step: int) -> RequestView:
    """The request after step `step` (0: before the first)."""
    request = trace.request(request_id)
    steps = trace.steps[:step]
    rows = [(s, row) for s in steps if (row := s.row(request_id)) is not None]
    chosen = [(s, row) for s, row in rows if row.token is not None]
    arrived_ms = 0.0
    if 0 < request.arrival <= len(steps):
        arrived_ms = steps[request.arrival - 1].end_ms
    first = chosen[0][0] if chosen else None
    ended = next(((s, row) for s, row in rows if row.finish_reason is not None), None)
    output = tuple(row.token for _, row in chosen if row.token is not None)
    tpot_ms = None
    if first is not None and len(chosen) > 1:
        tpot_ms = (chosen[-1][0].end_ms - first.end_ms) / (len(chosen) - 1)
    refused = trace.refused.get(request_id)
    aborted = trace.aborted.get(request_id, step + 1) <= step
    return RequestView(
        request_id=request_id,
        state=_state(trace, request_id, step),
        arrival=request.arrival,
        num_prompt_tokens=len(trace.prompt_tokens.get(request_id, ())),
        output=output,
        text=_text([row for _, row in chosen], request.params.stop),
        first_token_step=first.step if first else None,
        finished_step=ended[0].step if ended else trace.aborted[request_id] if aborted else None,
        finish_reason=ended[1].finish_reason if ended else "abort" if refused or aborted else None,
        error=ended[1].error if ended else refused,
        ttft_ms=first.end_ms - arrived_ms if first else None,
        tpot_ms=tpot_ms,
        num_preemptions=sum(request_id in s.preempted for s in steps),
        num_cached=sum(row.num_cached for _, row in rows),
        num_recomputed=sum(row.num_recomputed for _, row in rows),
    )


def requests_at(trace: BatchTrace, step: int) -> tuple[RequestView, ...]:
    """All requests after step `step`, in the order in which they were given."""
    return tuple(request_at(trace, request.request_id, step) for request in trace.requests)


def totals_at(trace: BatchTrace, step: int) -> BatchTotals:
    """The sums over steps 1 .. `step`."""
    steps = trace.steps[:step]
    wall_ms = steps[-1].end_ms if steps else 0.0
    new = sum(s.num_new_tokens for s in steps)
    peak = max((s.blocks.num_used for s in steps), default=0)
    return BatchTotals(
        steps=len(steps),
        wall_ms=wall_ms,
        num_new_tokens=new,
        tok_s=new / wall_ms * 1000 if wall_ms > 0 else None,
        num_tokens=sum(s.num_tokens for s in steps),
        padding_slots=sum(s.padding_slots for s in steps),
        idle_slots=sum(s.idle_slots for s in steps),
        num_recomputed=sum(s.num_recomputed for s in steps),
        num_cached=sum(s.num_cached for s in steps),
        num_preemptions=sum(len(s.preempted) for s in steps),
        peak_blocks=peak,
        peak_block_bytes=peak * trace.block_bytes,
        num_finished=sum(row.finish_reason is not None for s in steps for row in s.rows),
    )


def longest_request(trace: BatchTrace) -> str | None:
    """The request that computed the most positions so far: the one a static batch waits for."""
    positions = {r.request_id: 0 for r in trace.requests if r.request_id not in trace.refused}
    for step in trace.steps:
        for row in step.rows:
            positions[row.request_id] = max(positions[row.request_id], row.context_len)
    return max(positions, key=lambda request_id: positions[request_id], default=None)


def _state(trace: BatchTrace, request_id: str, step: int) -> LaneState:
    if request_id in trace.refused:
        return LaneState.REFUSED
    if trace.aborted.get(request_id, step + 1) <= step:
        return LaneState.FINISHED
    if not trace.steps[:step]:
        return LaneState.WAITING if trace.request(request_id).arrival == 0 else LaneState.PENDING
    return trace.steps[:step][-1].states[request_id]


def _text(rows: list[BatchRow], stop: tuple[str, ...]) -> str:
    data = b"".join(row.token.data for row in rows if row.token is not None and not row.ends)
    return cut_at_stop(data, stop).decode("utf-8", errors="replace")
