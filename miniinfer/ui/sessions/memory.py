"""What of a session is kept in memory: the newest runs, and the models that they were made with."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from miniinfer.errors import OutOfBlocksError
from miniinfer.figures.quoting import quoted
from miniinfer.trace.files.format import load_trace
from miniinfer.trace.files.recorded_run import RecordedRun
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.run import Run
from miniinfer.trace.timeline import Timeline
from miniinfer.ui.inside.hold import InsideHold
from miniinfer.ui.saving.keeper import RunKeeper
from miniinfer.ui.sessions.run_facts import short_name

if TYPE_CHECKING:
    import threading

    from miniinfer.models.loader import LoadedModel
    from miniinfer.ui.sessions.model_host import ModelHost

MAX_RUNS = 12  # old runs beyond this are let go, oldest first, so that a session's memory has an end

EXAMPLES_FOLDER = Path(__file__).parents[2] / "trace" / "examples"
EXAMPLE = EXAMPLES_FOLDER / "france.npz"

T = TypeVar("T")


class SessionMemory(ABC):
    """Part of a Session, which sets and defines these."""

    host: ModelHost
    lock: threading.RLock
    timeline: Timeline
    keeper: RunKeeper
    inside: InsideHold
    error: str | None
    note: str | None

    @property
    @abstractmethod
    def model(self) -> LoadedModel | None: ...

    @abstractmethod
    def in_engine(self, job: Callable[[], T], *, quick: bool = False) -> T: ...

    def held_models(self) -> dict[str, int]:
        """Models that earlier runs keep in memory beside the chosen one: "name · device · dtype" -> weight bytes."""
        with self.lock:
            infos = [run.info for run in self._other_models_runs()]
            return {f"{i.model_name} · {i.device.upper()} · {i.dtype}": i.weight_bytes for i in infos}

    def drop_runs_of_other_models(self) -> int:
        """Let those runs go, and with the last of them their models; the run in view stays. How many went."""
        with self.lock:
            going = [run for run in self._other_models_runs() if run is not self.timeline.current]
            for run in going:
                self._let_go(run)
            return len(going)

    def _other_models_runs(self) -> list[LiveRun]:
        live = [run for run in self.timeline if isinstance(run, LiveRun)]
        return [run for run in live if run.model is not self.model]

    def let_old_runs_go(self) -> None:
        while len(self.timeline) > MAX_RUNS:
            self._let_go(next(iter(self.timeline)))

    def with_room(self, work: Callable[[], T], *kept: Run) -> T:
        """Do what may need blocks of this session's KV cache. When it is full, the oldest runs but the one in view and
        `kept` go out of memory, as far as they come back when they are opened; with none left, OutOfBlocksError says
        what to do."""
        while True:
            try:
                return work()
            except OutOfBlocksError as error:
                stay = (self.timeline.current, *kept)
                others = [run for run in self.timeline if isinstance(run, LiveRun) and run not in stay]
                going = next((run for run in others if run.seq.block_table and self.keeper.keeps(run)), None)
                if going is None and error.__cause__ is not None:
                    raise  # the machine has no memory left, whatever this tab may have
                if going is None:
                    most = self.host.hosting.session_kv_bytes / 2**20
                    raise OutOfBlocksError(
                        f"The KV cache of this tab is full: {most:,.0f} MB are the most that it may have here. Start "
                        "a new run, or open a new tab; this run stays as it is."
                    ) from error
                self._let_go(going)

    def _let_go(self, run: Run) -> None:
        """Out of memory; what is saved of it stays."""
        if isinstance(run, LiveRun):
            self.keeper.leaving_memory([run])
        self._release([self.timeline.remove(run.info.run_id)])

    def forget(self, run_id: str) -> None:
        """The run was deleted: it goes from this session too. Without any run left, the example is there again."""
        with self.lock:
            self.keeper.forget(run_id)
            if run_id in self.timeline:
                self._release([self.timeline.remove(run_id)])
            if not len(self.timeline):
                self.show_example()

    def rename(self, run_id: str, name: str) -> bool:
        """Give a live run a name of the user's, in one line. False if it is not here, or there is no name."""
        with self.lock:
            run = self.timeline.get(run_id) if run_id in self.timeline else None
            if not isinstance(run, LiveRun) or not short_name(name):
                return False
            run.info = replace(run.info, name=short_name(name))
            self.keeper.changed(run)
            return True

    def show_example(self) -> None:
        """Something to look at: the first step of the recorded run."""
        self.timeline.add(recorded_example(), cursor=1)

    def add_recording(self, run: RecordedRun, run_id: str | None = None, cursor: int = 1) -> str:
        """Look at a recording from a file. It stays one: no model is needed. run_id: that of a reload; its id here."""
        with self.lock:
            if run_id is None:
                run_id = self.timeline.new_id()
            self.timeline.count_at_least(int(run_id[1:]))
            info = replace(run.info, run_id=run_id, name=short_name(run.info.name) or run_id)
            self.timeline.add(replace(run, info=info), cursor=min(cursor, len(run.steps)))
            if self.keeper.saved is not None:
                self.keeper.saved.recordings.keep(self.keeper.token, run_id, run)
            by, at = run.origin.by, run.origin.at[:10]
            made = (f", made by {by}" if by else "") + (f" on {at}" if by and at else "")
            self.error = None
            self.note = (
                f"{quoted(info.name)} is a recording{made}: it can be stepped without the "
                "model, not branched. The page Runs can make it live."
            )
            self.let_old_runs_go()
            return run_id

    def bring_back_all(self) -> None:
        """For a page that looks at several runs: the saved ones too, as far as they fit into memory."""
        with self.lock:
            self.keeper.bring_back_all()

    def room(self) -> int:
        """Runs that fit into memory beside those that are there."""
        return max(0, MAX_RUNS - len(self.timeline))

    def _release(self, runs: list[Run]) -> None:
        live = [run for run in runs if isinstance(run, LiveRun)]
        if live:
            self.inside.leave()

        def release() -> None:
            for run in live:
                run.release()

        if live:
            self.in_engine(release)


@functools.cache
def recorded_example() -> RecordedRun:
    """Read once for all sessions: nothing in it ever changes."""
    return load_trace(EXAMPLE)
