"""One step of a live run once more, on a throwaway fork: the run's KV prefix is shared, the run itself is not touched.

What the fork writes into a shared block goes into a copy of that block (copy-on-write), and releasing the fork gives
back all that it took.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from miniinfer.errors import BadInputError
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.parts import Parts

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.sequence import Sequence
    from miniinfer.engine.stage import Observer


@dataclass(frozen=True)
class StepRows:
    """The positions start .. stop - 1 that a step computes. made: the run has taken this step."""

    step: int
    start: int
    stop: int
    made: bool

    @property
    def count(self) -> int:
        return self.stop - self.start


def rows_of(run: LiveRun, step: int) -> StepRows:
    """Of a step that the run took, or of the next one. Raises BadInputError for any other."""
    if 1 <= step <= len(run.records):
        part = run.records[step - 1].sequences[0]
        return StepRows(step, part.start, part.context_len, made=True)
    seq = run.seq
    if step != len(run.records) + 1 or seq.finished:
        why = f"it ended ({seq.finish_reason})" if seq.finished else "steps come one after another"
        raise BadInputError(f"The run has no step {step}: {why}. Choose a step from 1 to {len(run.records)}.")
    budget = run.engine.config.max_num_batched_tokens
    count = min(seq.num_uncomputed_tokens, budget, seq.prefill_chunk or seq.num_tokens)
    return StepRows(step, seq.num_computed_tokens, seq.num_computed_tokens + count, made=False)


def fork_for(run: LiveRun, rows: StepRows) -> Sequence:
    """A sequence whose next step is the one of these rows, with the settings that the run's own had."""
    seq, engine = run.seq, run.engine
    length = max(rows.stop, run.info.num_prompt_tokens)
    params = run.params_of(rows.step) if rows.made else seq.params
    twin = engine.fork(seq, length, params=params, computed=rows.start)
    if rows.stop < twin.num_tokens or rows.count > 1:
        twin.prefill_chunk = rows.count
    if twin.finished:
        engine.release(twin)
        raise BadInputError(f"The run ended before step {rows.step}, so there is nothing to replay: go a step back.")
    return twin


def replay(run: LiveRun, rows: StepRows, observer: Observer) -> Parts[None]:
    """The step again, all its stages but `commit`, each shown to the observer; a part is a layer. Whatever happens,
    what it holds is released at the end."""
    engine, twin = run.engine, fork_for(run, rows)
    try:
        yield from _stages(engine, twin, observer)
    finally:
        engine.release(twin)


def one_pass(run: LiveRun, position: int, start: int, observer: Observer) -> Parts[None]:
    """Positions start .. position in one pass (start = position: as decode does it), or in chunks of the token budget
    where they are more; the observer sees the step that computes `position`. Parts and end as in `replay`."""
    engine = run.engine
    params = replace(run.seq.params, max_new_tokens=2**31, stop=(), stop_ids=())  # nothing may end it early
    twin = engine.fork(run.seq, position + 1, params=params, computed=start)
    twin.prefill_chunk = None
    try:
        if twin.finished:  # by a token that the model itself stops at, or a full context
            raise BadInputError(f"The text ends at position {position}: choose an earlier position.")
        budget, whole = engine.config.max_num_batched_tokens, max(1, position + 1 - start)
        while twin.num_uncomputed_tokens > budget:
            before = (twin.num_computed_tokens - start) / whole
            for share in _stages(engine, twin, None, commit=True):
                yield before + share * budget / whole
        before = (twin.num_computed_tokens - start) / whole
        for share in _stages(engine, twin, observer):
            yield before + share * (1 - before)
    finally:
        engine.release(twin)


def _stages(engine: Engine, twin: Sequence, observer: Observer | None, *, commit: bool = False) -> Parts[None]:
    """A step of the twin alone, layer by layer."""
    state = engine.begin_step(only=twin)
    assert state is not None  # the fork is unfinished
    program = engine.program
    last = len(program) if commit else len(program) - 1
    for stop in [*(i for i, stage in enumerate(program) if stage.name == "attn_norm"), last]:
        engine.advance(state, until=stop, observer=observer)
        yield stop / last
