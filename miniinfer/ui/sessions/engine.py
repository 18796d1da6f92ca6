"""A session's engine: the door to the engine thread, and memory that is given up for others and computed again."""

from __future__ import annotations

import time
from abc import ABC
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from miniinfer.errors import BadInputError, DeviceLostError
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.parts import Parts
from miniinfer.trace.sleep import fall_asleep, wake_in_parts
from miniinfer.trace.timeline import Timeline
from miniinfer.ui.inside.hold import InsideHold
from miniinfer.ui.sessions.engine_config import backend_for, config_for
from miniinfer.ui.sessions.run_log import log_event

if TYPE_CHECKING:
    import threading

    from miniinfer.engine.engine import Engine
    from miniinfer.engine.weights import ModelLike
    from miniinfer.trace.budget import TraceBudget
    from miniinfer.ui.batching.host import SessionBatch
    from miniinfer.ui.sessions.model_host import ModelHost
    from miniinfer.ui.sessions.queue_place import QueuePlace

CLOSED = "This tab lost its connection to the app: reload the page to go on where you were."

T = TypeVar("T")


class SessionEngine(ABC):
    """Part of a Session, which sets these."""

    session_id: str
    host: ModelHost
    lock: threading.RLock
    timeline: Timeline
    budget: TraceBudget
    batch: SessionBatch
    inside: InsideHold
    queue_place: QueuePlace
    block_size: int
    backend: str  # of the next new run: torch, native or auto
    closed: bool
    last_used: float  # on the monotonic clock
    _engine: Engine | None
    _waking: dict[str, Parts[None]]  # by run id: what the engine's thread has begun to compute again
    _woken: list[tuple[str, float]]  # runs that came back from sleep since somebody was told, and the ms it took

    def compute(self, job: Callable[[], T]) -> T:
        """Model work that belongs to no run, in the engine's thread. Keep each job short: other tabs wait for it."""
        if self.closed:
            raise BadInputError(CLOSED)
        return self.in_engine(job)

    def in_engine(self, job: Callable[[], T], *, quick: bool = False) -> T:
        """quick: a job of a few milliseconds that shows what a step has just made; it need not wait in line again."""
        with self._using():
            return self.host.worker.call(job, key=self.session_id, slow=self.queue_place.while_waiting, quick=quick)

    def in_engine_in_parts(self, work: Callable[[], Parts[T]]) -> T:
        """What takes longer than a step: other tabs' jobs come in between its parts."""
        with self._using():
            return self.host.worker.call_in_parts(work, key=self.session_id, slow=self.queue_place.while_waiting)

    @contextmanager
    def _using(self) -> Iterator[None]:
        self.last_used = time.monotonic()
        try:
            yield
        except DeviceLostError:
            self.host.device_lost = True
            raise
        finally:
            self.last_used = time.monotonic()

    def engine_for(self, model: ModelLike, block_size: int | None = None) -> Engine:
        """This session's engine for new runs, or one with the block size of a saved run."""
        from miniinfer.engine.engine import Engine

        config = config_for(model, block_size or self.block_size, self.host.hosting)
        backend = backend_for(model, self.backend)
        known = self._engine
        if known is None or known.model is not model or known.config != config or known.backend is not backend:
            known = self._engine = Engine(model, config, backend=backend)
        return known

    # Under the memory limit of all sessions (sessions/open_sessions.py)

    def memory_bytes(self) -> int:
        """KV caches and records that this session holds, measured: the storage of its engines, and its records."""
        runs = [run.awake_engine for run in self.timeline if isinstance(run, LiveRun)]
        engines = {id(engine): engine for engine in (*runs, self._engine) if engine is not None}
        batch = self.batch.run
        held = sum(engine.reserved_bytes() for engine in engines.values())
        return held + self.budget.used_bytes + (batch.engine.reserved_bytes() if batch is not None else 0)

    def give_up_memory(self) -> bool:
        """Let all caches and records go, for somebody else; they come back when this session is used. False if it is
        in use right now."""
        if not self.lock.acquire(blocking=False):
            return False
        try:
            if self.closed or not self.batch.give_up():
                return False
            self.inside.leave()
            runs = [run for run in self.timeline if isinstance(run, LiveRun)]
            self.host.worker.call(self._sleep, runs, key=self.session_id)
            return True
        finally:
            self.lock.release()

    def _sleep(self, runs: list[LiveRun]) -> None:
        for run in runs:
            fall_asleep(run, self._wake)
        self._engine = None
        log_event(self.session_id, "asleep", runs=len(runs))

    def _wake(self, run: LiveRun) -> None:
        self.in_engine_in_parts(lambda: self._waking_of(run))

    def _waking_of(self, run: LiveRun) -> Parts[None]:
        """Whoever needs the run while it is being woken, between two parts, goes on with the same work at once."""
        run_id = run.info.run_id
        if run_id not in self._waking:
            self._waking[run_id] = self._awaken(run)
        yield from self._waking[run_id]

    def _awaken(self, run: LiveRun) -> Parts[None]:
        run_id, started = run.info.run_id, time.perf_counter()
        try:
            if run.asleep and not self.closed:
                yield from self._wake_path(run)
                ms = 1000 * (time.perf_counter() - started)
                self._woken.append((run_id, ms))
                log_event(self.session_id, "awake", run_id, step=len(run.steps), ms=ms)
        finally:
            del self._waking[run_id]

    def _wake_path(self, run: LiveRun) -> Parts[None]:
        """Its trunks first: what they have in common is computed once, and shared as before."""
        parent = run.info.parent
        trunk = self.timeline.get(parent) if parent is not None and parent in self.timeline else None
        if not isinstance(trunk, LiveRun) or trunk.model is not run.model:
            trunk = None
        elif trunk.asleep:
            yield from self._wake_path(trunk)
        if trunk is not None and trunk.info.block_size == run.info.block_size:
            yield from wake_in_parts(run, trunk.engine, trunk)
        else:
            yield from wake_in_parts(run, self.engine_for(run.model, run.info.block_size), None)

    def wake_current(self) -> str | None:
        """The run in view is there again, if it slept. What to say then; None if nothing had been given up."""
        run = self.timeline.current
        if isinstance(run, LiveRun) and run.asleep:
            self._wake(run)
        woken, self._woken = dict(self._woken), []
        said = []
        if run is not None and run.info.run_id in woken:
            said.append(
                f"While this tab was idle, the memory of “{run.info.name}” was lent to others. It is back at step "
                f"{self.timeline.cursor}: tokens, draws and times are as they were; keys, values and attention were "
                f"computed again ({woken[run.info.run_id]:,.0f} ms)."
            )
        if self.batch.lent:
            self.batch.lent = False
            said.append("The memory of this tab's batch was lent to others: its steps are computed again.")
        return " ".join(said) or None
