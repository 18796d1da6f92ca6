"""A long measurement of one tab: in a thread of its own, which asks the engine thread for one step at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from miniinfer.errors import MiniInferError, NoMemoryError
from miniinfer.measure.progress import Progress

if TYPE_CHECKING:
    from miniinfer.measure.progress import Measurement
    from miniinfer.ui.sessions.session import Session

State = Literal["running", "done", "failed", "cancelled"]
Say = Callable[[str], None]


class CostTask:
    """Between two steps other tabs' steps run, and `cancel` takes effect. A closed session ends it too.

    prepare: makes the measurement, in the task's own thread; it may take long (load a model, say) and is given a
    function to say what it does. done: is given the result, whether or not anybody looks at it. Nothing of the
    measurement stays once it is over, but for `result`.
    """

    def __init__(
        self, session: Session, view: str, run_id: str, prepare: Callable[[Say], Measurement[Any]],
        done: Callable[[Any], None] | None = None,
    ) -> None:
        self.view, self.run_id = view, run_id
        self.progress = Progress("starting", 0.0)
        self.state: State = "running"
        self.error: str | None = None
        self.result: Any = None
        self._session, self._done = session, done
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(prepare,), name="measurement", daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        self._cancelled.set()

    def join(self, seconds: float) -> None:
        """Wait for its end."""
        self._thread.join(seconds)

    def _run(self, prepare: Callable[[Say], Measurement[Any]]) -> None:
        try:
            self._step_through(prepare(self._say))
        except (MemoryError, NoMemoryError):
            self.error, self.state = "This machine has too little free memory for this measurement.", "failed"
        except MiniInferError as error:
            self.error, self.state = str(error), "failed"
        except Exception as error:
            self.error, self.state = f"The measurement failed ({type(error).__name__}: {error}).", "failed"
            raise

    def _step_through(self, measurement: Measurement[Any]) -> None:
        worker, key = self._session.host.worker, ("measurement", self._session.session_id)

        def advance() -> bool:
            """One step of it, in the engine thread; an end must not leave that thread as a StopIteration."""
            try:
                self.progress = next(measurement)
            except StopIteration as end:
                self.result = end.value
                return False
            return True

        try:
            while not (self._cancelled.is_set() or self._session.closed):
                if not worker.call(advance, key=key):
                    if self._done is not None:
                        self._done(self.result)
                    self.state = "done"
                    return
            self.state = "cancelled"
        finally:
            measurement.close()

    def _say(self, text: str) -> None:
        self.progress = Progress(text, 0.0)
