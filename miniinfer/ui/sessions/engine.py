"""A session's engine: the door to the engine thread, and memory that is given up for others and computed again."""

from __future__ import annotations

import time
from abc import ABC
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from miniinfer.errors import BadInputError, DeviceLostError
from miniinfer.figures.quoting import quoted
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.parts import Parts
from miniinfer.trace.sleep import fall_asleep
from miniinfer.trace.timeline import Timeline
from miniinfer.ui.inside.hold import InsideHold
from miniinfer.ui.saving.came_back import rounding
from miniinfer.ui.sessions.engine_config import backend_again, backend_for, config_for
from miniinfer.ui.sessions.run_log import log_event

if TYPE_CHECKING:
    import threading

    from miniinfer.engine.engine import Engine
    from miniinfer.engine.weights import ModelLike
    from miniinfer.trace.budget import TraceBudget
    from miniinfer.ui.batching.host import SessionBatch
    from miniinfer.ui.sessions.model_host import ModelHost
    from miniinfer.ui.sessions.queue_place import QueuePlace
    from miniinfer.ui.sessions.waking import Waking

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
    waking: Waking
    block_size: int
    backend: str  # of the next new run: a key of config.BACKENDS
    closed: bool
    last_used: float  # on the monotonic clock
    _engine: Engine | None

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

    def engine_for(self, model: ModelLike, block_size: int | None = None, backend_name: str | None = None) -> Engine:
        """This session's engine for new runs, or one with the block size and the backend of a run that comes back."""
        from miniinfer.engine.engine import Engine

        config = config_for(model, block_size or self.block_size, self.host.hosting)
        backend = backend_for(model, self.backend) if backend_name is None else backend_again(model, backend_name)
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
            fall_asleep(run, self.waking.wake)
        self._engine = None
        log_event(self.session_id, "asleep", runs=len(runs))

    def wake(self, runs: Iterable[object]) -> None:
        """Those of them whose memory was lent are there again, computed part by part."""
        for run in runs:
            if isinstance(run, LiveRun):
                self.waking.wake(run)

    def wake_current(self) -> str | None:
        """The run in view is there again, if it slept. What to say then; None if nothing had been given up."""
        run = self.timeline.current
        self.wake([run])
        woken, self.waking.woken = self.waking.woken, {}
        said = []
        if run is not None and run.info.run_id in woken:
            said.append(
                f"While this tab was idle, the memory of {quoted(run.info.name)} was lent to others. It is back at "
                f"step {self.timeline.cursor}: tokens, draws and times are as they were; keys, values and attention "
                f"were computed again ({woken[run.info.run_id]:,.0f} ms).{rounding(run.info)}"
            )
        if self.batch.lent:
            self.batch.lent = False
            said.append("The memory of this tab's batch was lent to others: its steps are computed again.")
        return " ".join(said) or None
