"""The one step that a session looks into. It holds a fork of the run, so it is let go when anything else is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from miniinfer.errors import BadInputError
from miniinfer.trace.inside.inside import StepInside
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.parts import Parts
from miniinfer.trace.run import Run

if TYPE_CHECKING:
    from miniinfer.ui.sessions.session import Session

T = TypeVar("T")


class InsideHold:
    """Guarded by the session's lock; all work is done in the engine's thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._inside: StepInside | None = None
        self._replay: tuple[LiveRun, Parts[Any]] | None = None

    @property
    def holds(self) -> bool:
        return self._inside is not None or self._replay is not None

    def use(self, run: LiveRun, step: int, question: Callable[[StepInside], T]) -> T:
        """Ask something about the inside of this step; opens it where another one is open. Raises MiniInferError."""
        with self._session.lock:
            held = self._inside
            if held is None or held.run is not run or held.rows.step != step or held.rows.made != (
                step <= len(run.records)
            ):
                self.leave()
                self._inside = held = self._session.look([run], lambda: StepInside(run, step))
            return self._session.look([run], lambda: question(held))

    @contextmanager
    def replaying(self, run: LiveRun, work: Parts[T]) -> Iterator[Callable[[Callable[[], Any]], Any]]:
        """Gives what runs the parts of a replay in the engine's thread. It raises BadInputError once the replay had to
        make room. At the end the replay's fork is given back."""
        with self._session.lock:
            self._end_replay()
            self._replay = (run, work)
        try:
            yield partial(self._part, work)
        finally:
            with self._session.lock:
                if self._is_current(work):
                    self._end_replay()

    def _part(self, work: Parts[Any], job: Callable[[], T]) -> T:
        with self._session.lock:
            if self._replay is None or not self._is_current(work):
                raise BadInputError("Something else was done meanwhile, so this was given up: choose the view again.")
            return self._session.look([self._replay[0]], job)

    def _is_current(self, work: Parts[Any]) -> bool:
        return self._replay is not None and self._replay[1] is work

    def _end_replay(self) -> None:
        replay, self._replay = self._replay, None
        if replay is not None:
            self._session.look([replay[0]], replay[1].close)

    def make_room(self, run: Run | None, want: int) -> None:
        """The run may be stepped up to step `want`: it may need the blocks that a look into a step holds."""
        if run is not None and len(run.steps) < want:
            self.leave()

    def leave(self) -> None:
        """Give the forks back."""
        with self._session.lock:
            self._end_replay()
            held, self._inside = self._inside, None
            if held is not None:
                self._session.look([held.run], held.close)
