"""A live run whose cache and records were given up: it knows its tokens and draws, and computes the rest when asked.

Whoever touches `engine`, `records` or `_recorder` of a run that sleeps wakes it first, so nobody else need know.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from miniinfer.errors import BadInputError
from miniinfer.trace.known_step import KnownStep
from miniinfer.trace.parts import Parts
from miniinfer.trace.recorder import Recorder
from miniinfer.trace.records import StepRecord

if TYPE_CHECKING:
    from miniinfer.config import SamplingParams
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.sequence import Sequence
    from miniinfer.engine.weights import ModelLike
    from miniinfer.trace.budget import TraceBudget
    from miniinfer.trace.live_run import LiveRun

Waker = Callable[["LiveRun"], None]


@dataclass(frozen=True)
class _Asleep:
    """waker: has the run woken, in the engine's thread, before it returns. Raises MiniInferError if that fails."""

    model: ModelLike
    steps: tuple[KnownStep, ...]
    waker: Waker


class SleepingRun:
    """The part of a LiveRun that can be given up and computed again. `seq` stays readable, but for its blocks."""

    seq: Sequence
    _engine: Engine | None
    _records: list[StepRecord]
    _own_recorder: Recorder | None
    _step_params: list[SamplingParams]
    _budget: TraceBudget
    _asleep: _Asleep | None = None
    _known: tuple[KnownStep, ...] = ()  # of the first records; replaced, never changed

    @property
    def asleep(self) -> bool:
        return self._asleep is not None

    @property
    def model(self) -> ModelLike:
        """The model that made this run; asking does not wake it."""
        asleep = self._asleep
        return asleep.model if asleep is not None else self.engine.model

    @property
    def engine(self) -> Engine:
        self._rouse()
        if self._engine is None:
            raise BadInputError("This run was let go; open it again in the run menu.")
        return self._engine

    @engine.setter
    def engine(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def records(self) -> list[StepRecord]:
        self._rouse()
        return self._records

    @records.setter
    def records(self, records: list[StepRecord]) -> None:
        self._records = records

    @property
    def _recorder(self) -> Recorder:
        self._rouse()
        assert self._own_recorder is not None
        return self._own_recorder

    @_recorder.setter
    def _recorder(self, recorder: Recorder) -> None:
        self._own_recorder = recorder

    @property
    def awake_engine(self) -> Engine | None:
        """The engine whose memory this run holds; None while it sleeps."""
        return self._engine

    def known_steps(self) -> list[KnownStep]:
        """All steps so far, without what is large. From any thread, without waking it: a list that is given up is
        replaced and never changed, and the steps are known before it is. The same step is the same object each time."""
        records, settings = self._records, list(self._step_params)
        asleep, known = self._asleep, self._known
        if asleep is not None:
            return list(asleep.steps)
        new = zip(records[len(known) :], settings[len(known) :], strict=False)
        self._known = known = (*known, *(KnownStep.of(record, params) for record, params in new))
        return list(known)

    def _rouse(self) -> None:
        asleep = self._asleep
        if asleep is not None:
            asleep.waker(self)  # type: ignore[arg-type]  # only a LiveRun is one


def fall_asleep(run: LiveRun, waker: Waker) -> None:
    """Give up cache and records, in the engine's thread. Tokens, draws, times and the reason of its end stay."""
    if run._asleep is not None or run._engine is None or run.released:
        return
    engine, seq, records = run._engine, run.seq, run._records
    assert len(run.steps) == len(records)  # asking for them keeps them, for whoever only lists the run
    assert len(run.tokens) == seq.num_tokens
    kept = dataclasses.replace(
        seq, token_ids=list(seq.token_ids), block_table=[], block_hashes=[], forced=dict(seq.forced)
    )
    run._asleep = _Asleep(engine.model, tuple(run.known_steps()), waker)
    run.seq, run._engine, run._records, run._own_recorder = kept, None, [], None
    run._next = {}
    engine.release(seq)
    run._budget.drop(records)


def wake_in_parts(run: LiveRun, engine: Engine, trunk: LiveRun | None) -> Parts[None]:
    """Compute cache and records again, in the engine's thread, stopping before each layer; with its trunk awake in the
    same engine, their common positions are shared. Raises MiniInferError, and the run sleeps on."""
    from miniinfer.trace.resume import resume_in_parts

    asleep = run._asleep
    if asleep is None:
        return
    prompt = run.seq.token_ids[: run.info.num_prompt_tokens]
    again = yield from resume_in_parts(engine, run.info, prompt, asleep.steps, run.describe, run._budget, trunk)
    if run._asleep is not asleep:  # it was let go between two parts
        again.release()
        return
    again.info = dataclasses.replace(again.info, name=run.info.name, backend=engine.backend.name)
    run.seq, run.info, run._step_params = again.seq, again.info, again._step_params
    run._engine, run._own_recorder, run._records = engine, again._own_recorder, again._records
    run._asleep = None  # last: from here on others read the rest


__all__ = ["SleepingRun", "fall_asleep", "wake_in_parts"]
