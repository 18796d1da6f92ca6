"""The record of one engine step of a batch run. Called in the engine's thread, right after the step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from miniinfer.trace.batch.records import BatchRow, BatchStep, Candidate, LaneState, RowPhase
from miniinfer.trace.records import FloatArray

if TYPE_CHECKING:
    from miniinfer.engine.scheduler import Scheduled
    from miniinfer.engine.state import StepState
    from miniinfer.trace.batch.run import BatchRun

NUM_CANDIDATES = 5


def batch_step(run: BatchRun, state: StepState, step_ms: float, arrived: tuple[str, ...]) -> BatchStep:
    """What the newest step did. It is called before the requests that ended in it give their blocks back."""
    choices = _choices(run, state)
    rows = tuple(_row(run, state, i, choices.get(i, {})) for i in range(len(state.scheduled)))
    waiting = tuple(seq.seq_id for seq in run.engine.scheduler.queue())
    return BatchStep(
        step=len(run.steps) + 1,
        step_ms=step_ms,
        end_ms=step_ms + (run.steps[-1].end_ms if run.steps else 0.0),
        rows=rows,
        states={request.request_id: _lane(run, request.request_id, rows) for request in run.requests},
        arrived=arrived,
        admitted=tuple(seq.seq_id for seq in state.admitted),
        preempted=tuple(seq.seq_id for seq in state.preempted),
        waiting=waiting,
        waits_for=state.waits_for if waiting else None,
        budget=run.settings.token_budget,
        blocks=run.block_grid(),
        final_norm=_final_norm(state),
    )


def _choices(run: BatchRun, state: StepState) -> dict[int, dict[str, Any]]:
    """For each scheduled sequence that chose a token, by its index: the fields of its row that say how."""
    if not state.sample_seqs:
        return {}
    raw, vocab_size = state.raw_logits.softmax(-1), state.raw_logits.shape[1]
    best = state.raw_logits.topk(min(NUM_CANDIDATES, vocab_size), dim=-1)
    margins = (best.values[:, 0] - best.values[:, 1]).tolist() if vocab_size > 1 else [0.0] * len(state.sample_seqs)
    found: dict[int, dict[str, Any]] = {}
    for r, i in enumerate(state.sample_seqs):
        token_id = state.token_ids[r]
        if token_id < 0:
            continue  # no token could be drawn: the row says why
        seq = state.scheduled[i].seq
        shown = best.indices[r].tolist()
        if token_id not in shown:
            shown[-1] = token_id
        found[i] = {
            "token": run.describe(token_id),
            "token_prob": float(state.probs[r, token_id]),
            "coin": state.coins[r],
            "margin": margins[r],
            "candidates": tuple(
                Candidate(run.describe(one), float(raw[r, one]), float(state.probs[r, one])) for one in shown
            ),
            "ends": seq.finish_reason == "stop" and token_id in run.model.stop_ids | set(seq.params.stop_ids),
        }
    return found


def _row(run: BatchRun, state: StepState, i: int, choice: dict[str, Any]) -> BatchRow:
    entry = state.scheduled[i]
    seq = entry.seq
    ended = seq.finished and entry.num_tokens > 0
    return BatchRow(
        request_id=seq.seq_id,
        phase=_phase(entry, bool(choice)),
        start=entry.start,
        num_tokens=entry.num_tokens,
        num_padding=state.width - entry.num_tokens if state.width else 0,
        num_cached=seq.num_cached_tokens if seq in state.admitted else 0,
        num_recomputed=max(0, min(entry.stop, run.computed_before(seq.seq_id)) - entry.start),
        context_len=entry.stop,
        finish_reason=seq.finish_reason if ended else None,
        error=seq.error if ended else None,
        **choice,
    )


def _phase(entry: Scheduled, chose: bool) -> RowPhase:
    """As it was when the step was planned: its new token has joined the sequence since."""
    if entry.num_tokens == 0:
        return "idle"
    num_tokens, num_outputs = entry.seq.num_tokens - chose, entry.seq.num_output_tokens - chose
    return "decode" if num_outputs > 0 and num_tokens - entry.start == 1 else "prefill"


def _lane(run: BatchRun, request_id: str, rows: tuple[BatchRow, ...]) -> LaneState:
    row = next((row for row in rows if row.request_id == request_id), None)
    if row is not None:
        return LaneState(row.phase)
    if request_id in run.refused:
        return LaneState.REFUSED
    if not run.has_arrived(request_id):
        return LaneState.PENDING
    seq = run.engine.sequences.get(request_id)
    if seq is None or seq.finished:
        return LaneState.FINISHED
    if seq in run.engine.scheduler.running:
        return LaneState.STALLED
    return LaneState.PREEMPTED if seq.num_preemptions else LaneState.WAITING


def _final_norm(state: StepState) -> FloatArray:
    """[R, E] of the rows that chose a token, copied, read-only."""
    drawn = [row for row, token_id in zip(state.sample_rows, state.token_ids, strict=True) if token_id >= 0]
    vectors: FloatArray = state.final_norm_out[drawn].float().cpu().numpy().copy()
    vectors.flags.writeable = False
    return np.asarray(vectors)
