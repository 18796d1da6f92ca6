"""The one step that a session looks into. It holds a fork of the run, so it is let go when anything else is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from miniinfer.trace.inside import StepInside
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.run import Run

if TYPE_CHECKING:
    from miniinfer.ui.session import Session

T = TypeVar("T")


class InsideHold:
    """Guarded by the session's lock; all work is done in the engine's thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._inside: StepInside | None = None

    @property
    def holds(self) -> bool:
        return self._inside is not None

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

    def make_room(self, run: Run | None, want: int) -> None:
        """The run may be stepped up to step `want`: it may need the blocks that a look into a step holds."""
        if run is not None and len(run.steps) < want:
            self.leave()

    def leave(self) -> None:
        """Give the fork back."""
        with self._session.lock:
            held, self._inside = self._inside, None
            if held is not None:
                self._session.look([held.run], held.close)
