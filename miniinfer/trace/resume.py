"""A live run that comes back: tokens, times and draws are known, everything large is computed again in one prefill."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from miniinfer.errors import BadInputError
from miniinfer.trace.attention.heads import far_reading_head
from miniinfer.trace.budget import TraceBudget
from miniinfer.trace.known_step import KnownStep
from miniinfer.trace.live_run import DescribeToken, LiveRun
from miniinfer.trace.parts import Parts, finished
from miniinfer.trace.recorded_step import recorded_step
from miniinfer.trace.records import FloatArray, PooledMaps, SequenceRecord, StepRecord
from miniinfer.trace.run import RunInfo

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine

NOTE = "tokens, draws and times are those of the first run; keys, values and attention were computed again"


def resume_run(
    engine: Engine, info: RunInfo, prompt_ids: Sequence[int], steps: Sequence[KnownStep], describe: DescribeToken,
    budget: TraceBudget, trunk: LiveRun | None = None,
) -> LiveRun:
    """The run as it stood after `steps`, ready to go on. Raises MiniInferError with nothing left behind.

    trunk: the run that it branched off (`info.edit` says where), if that is there: their common positions are shared.
    """
    return finished(resume_in_parts(engine, info, prompt_ids, steps, describe, budget, trunk))


def resume_in_parts(
    engine: Engine, info: RunInfo, prompt_ids: Sequence[int], steps: Sequence[KnownStep], describe: DescribeToken,
    budget: TraceBudget, trunk: LiveRun | None = None,
) -> Parts[LiveRun]:
    """The same, stopping before each layer, so that other runs' steps come in between. Nobody may touch `trunk`."""
    from miniinfer.engine.resume import end_if_over, resume

    common = _common_steps(info, steps, trunk)
    kept = sum(step.num_scheduled for step in steps[:common])
    chosen = [step for step in steps if step.token_id is not None]
    seq = resume(
        engine, prompt_ids, [step.token_id for step in chosen if step.token_id is not None], info.params,
        forced={i: step.token_id for i, step in enumerate(chosen) if step.forced and step.token_id is not None},
        prefill_chunk=None if info.one_pass else 1, seq_id=info.run_id,
        trunk=trunk.seq if trunk is not None else None, shared=kept,
    )
    run = LiveRun(engine, seq, replace(info, resumed=len(steps)), describe, budget)
    try:
        if common and trunk is not None and seq.num_computed_tokens == kept:
            run.records = _taken_over(trunk.records[:common], steps[:common])
            budget.share(run.records)
        for record in (yield from _recomputed(engine, run, steps)):
            run.records.append(record)
            budget.add(record)
        run._step_params = [step.params for step in steps]
        end_if_over(engine, seq)
        if info.default_head is None and chosen:
            run.info = replace(run.info, default_head=far_reading_head(run.rows_at(len(prompt_ids) - 1)))
    except BaseException:
        run.release()
        raise
    return run


def _common_steps(info: RunInfo, steps: Sequence[KnownStep], trunk: LiveRun | None) -> int:
    """Steps whose positions the trunk has too: up to the one at which the branch chose another token."""
    if trunk is None or info.edit is None or not 1 <= info.edit.step <= min(len(steps), len(trunk.records)):
        return 0
    theirs = [record.sequences[0].num_scheduled for record in trunk.records[: info.edit.step]]
    return info.edit.step if theirs == [step.num_scheduled for step in steps[: info.edit.step]] else 0


def _taken_over(records: Sequence[StepRecord], steps: Sequence[KnownStep]) -> list[StepRecord]:
    last, step = records[-1], steps[-1]
    part = replace(
        last.sequences[0], token_id=step.token_id, logprob=step.logprob, coin=step.coin, forced=step.forced
    )
    return [*records[:-1], replace(last, sequences=(part,))]


def _recomputed(engine: Engine, run: LiveRun, steps: Sequence[KnownStep]) -> Parts[list[StepRecord]]:
    """The records of the steps that `run` lacks, split from those of one prefill."""
    from miniinfer.engine.resume import up_to

    seq, recorder = run.seq, run._recorder
    first = seq.num_computed_tokens
    until = sum(step.num_scheduled for step in steps)
    parts: list[SequenceRecord] = []
    while not seq.finished and seq.num_computed_tokens < until:
        with up_to(seq, until):
            state = yield from recorded_step(engine, seq, recorder)
        if state is None:
            break
        parts.append(recorder.record(0, state).sequences[0])
    if seq.num_computed_tokens != until:
        raise BadInputError("The saved run does not fit its own tokens: it cannot come back.")
    pooled = next((part.pooled for part in parts if part.pooled is not None), None)
    found: list[StepRecord] = []
    start = 0
    for number, step in enumerate(steps, 1):
        stop = start + step.num_scheduled
        if start >= first:
            ends_prompt = start < seq.num_prompt_tokens <= stop
            rows = slice(start - first, stop - first)
            found.append(_record(engine, run, number, step, start, _cut(parts, rows), pooled if ends_prompt else None))
        start = stop
    return found


def _cut(parts: Sequence[SequenceRecord], rows: slice) -> tuple[FloatArray, FloatArray, FloatArray]:
    """q [L, n, H, D], final_norm [n, E] and kv_norms [n, L, 2] of some rows, as copies: a view would hold them all."""

    def joined(arrays: Callable[[SequenceRecord], FloatArray]) -> FloatArray:
        found, at = [], 0
        for part in parts:
            low, high = max(rows.start - at, 0), min(rows.stop - at, part.num_scheduled)
            if low < high:
                found.append(arrays(part)[low:high])
            at += part.num_scheduled
        made = np.concatenate(found)
        made.setflags(write=False)
        return made

    def queries(part: SequenceRecord) -> FloatArray:
        assert part.q is not None  # this record has not met the budget yet
        return np.moveaxis(part.q, 1, 0)

    q = np.ascontiguousarray(np.moveaxis(joined(queries), 0, 1))
    q.setflags(write=False)
    return q, joined(lambda part: part.final_norm), joined(lambda part: part.kv_norms)


def _record(
    engine: Engine, run: LiveRun, number: int, step: KnownStep, start: int,
    arrays: tuple[FloatArray, FloatArray, FloatArray], pooled: PooledMaps | None,
) -> StepRecord:
    q, final_norm, kv_norms = arrays
    context, cache, weights = start + step.num_scheduled, engine.kv_cache, engine.weights
    part = SequenceRecord(
        run.seq.seq_id, start, step.num_scheduled, context, step.token_id, step.logprob, step.coin, step.forced,
        final_norm, kv_norms, q, pooled,
    )
    return StepRecord(
        number,
        "prefill" if start < run.seq.num_prompt_tokens else "decode",
        step.step_ms,
        dict(step.stage_ms),
        (part,),
        weight_bytes_read=weights.nbytes - (0 if step.token_id is not None else weights.unembed.nbytes),
        kv_bytes_read=context * cache.position_bytes,
        kv_used_bytes=context * cache.position_bytes,
        kv_allocated_bytes=-(-context // cache.block_size) * cache.block_bytes,
        kv_reserved_bytes=engine.reserved_bytes(),
        notes=(NOTE,),
        recording_ms=step.recording_ms,
    )


__all__ = ["NOTE", "KnownStep", "resume_run"]
