"""What the components in the browser are told of a session."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from miniinfer.errors import MiniInferError
from miniinfer.figures.transport import transport_data
from miniinfer.figures.workspace import Selection, Surroundings, encode, run_entry
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.run import Run
from miniinfer.trace.timeline import Timeline
from miniinfer.ui.saving.keeper import RunKeeper
from miniinfer.ui.saving.view import saved_entry
from miniinfer.ui.sessions.model_host import ModelStatus

if TYPE_CHECKING:
    import threading

T = TypeVar("T")


class SessionView(ABC):
    """Part of a Session, which sets and defines these."""

    lock: threading.RLock
    timeline: Timeline
    keeper: RunKeeper
    error: str | None
    note: str | None

    @property
    @abstractmethod
    def status(self) -> ModelStatus: ...

    @abstractmethod
    def wake(self, runs: Iterable[object]) -> None: ...

    @abstractmethod
    def wake_current(self) -> str | None: ...

    @abstractmethod
    def in_engine(self, job: Callable[[], T], *, quick: bool = False) -> T: ...

    def look(self, runs: Iterable[Run], question: Callable[[], T], *, quick: bool = False) -> T:
        """Ask runs something that may touch tensors: in the engine's thread if one of them is live."""
        with self.lock:
            runs = list(runs)
            self.wake(runs)
            live = any(isinstance(run, LiveRun) for run in runs)
            return self.in_engine(question, quick=quick) if live else question()

    @property
    def in_view(self) -> tuple[Run, int]:
        """The run that the workspace shows, and the step: of a run that is about to come back, what is saved of it."""
        if self.keeper.view is not None:
            return self.keeper.view, self.keeper.waiting[self.keeper.view.info.run_id].cursor
        run = self.timeline.current
        assert run is not None  # a session always has a run: the recorded example at the least
        return run, self.timeline.cursor

    def transport(self, has_driver: bool) -> dict[str, Any]:
        """The transport's data, as figures/transport.py describes it."""
        with self.lock:
            self._wake_for_view()
            timeline = self.timeline
            if has_driver and self.keeper.view is not None:
                timeline = Timeline()
                timeline.add(*self.in_view)
            data = transport_data(timeline, self.status.to_json(), has_driver)
            names = {"browser": self.keeper.browser}
            return data | names | {"runs": self._menu(), "comes_back": self.keeper.comes_back}

    def _wake_for_view(self) -> None:
        """The run in view, if its memory was lent: what is drawn next needs it."""
        try:
            self.note = self.wake_current() or self.note
        except MiniInferError as error:
            self.error = str(error)

    def _menu(self) -> list[dict[str, Any]]:
        """Lines of the run menu: those in memory, and those that come back when they are opened."""
        entries = [run_entry(run) for run in self.timeline]
        if self.keeper.waiting:
            entries += map(saved_entry, self.keeper.waiting.values())
            entries.sort(key=lambda e: (e["kind"] != "recorded", len(e["id"]), e["id"]))  # in the order of their making
        return entries

    def message(self, selection: Selection) -> bytes:
        """The workspace's message for the current run, as docs/workspace-message.md describes it."""
        with self.lock:
            self._wake_for_view()
            run, cursor = self.in_view
            error = self.error or self.keeper.problem
            around = Surroundings(tuple(self._menu()), self.status.to_json(), error, self.note)
            selection = replace(selection, cursor=cursor)
            if run is self.keeper.view:
                selection = Selection(selection.ask, cursor, selection.have_meta, selection.have_tokens)
            try:
                return self.look([run], lambda: encode(run, selection, around), quick=True)
            except MiniInferError as error:  # something that was asked for is gone; the rest of the page is not
                bare = replace(selection, details=(), head=None, exact=None, row=None, probs_from=None)
                shown = replace(around, error=str(error))
                return self.look([run], lambda: encode(run, bare, shown))
