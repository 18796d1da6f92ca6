"""Runs of a session whose memory was lent are computed again in parts, so that other tabs' steps come in between."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.parts import Parts
from miniinfer.trace.sleep import wake_in_parts
from miniinfer.ui.sessions.run_log import log_event

if TYPE_CHECKING:
    from miniinfer.ui.sessions.session import Session


class Waking:
    """`woken`: runs that came back since somebody was told, and the ms it took (other tabs' turns included)."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._work: dict[str, Parts[None]] = {}  # by run id: begun, and at rest between two parts
        self.woken: dict[str, float] = {}

    def wake(self, run: LiveRun) -> None:
        """Come back when the run is awake. Raises MiniInferError, and it sleeps on."""
        if run.asleep:
            self._session.in_engine_in_parts(lambda: self._awaken(run))

    def _awaken(self, run: LiveRun) -> Parts[None]:
        """In the engine's thread. A job that comes in between two parts and needs the run at once goes on with the same
        work, to its end."""
        run_id = run.info.run_id
        try:
            while run.asleep and not self._session.closed:
                if run_id not in self._work:
                    self._work[run_id] = self._computed_again(run)
                try:
                    share = next(self._work[run_id])
                except StopIteration:
                    continue
                yield share
        finally:
            if (work := self._work.pop(run_id, None)) is not None:
                work.close()

    def _computed_again(self, run: LiveRun) -> Parts[None]:
        """Its trunks first: what they have in common is computed once, and shared as before."""
        session, started = self._session, time.perf_counter()
        parent = run.info.parent
        found = session.timeline.get(parent) if parent is not None and parent in session.timeline else None
        trunk = found if isinstance(found, LiveRun) and found.model is run.model else None
        if trunk is not None and trunk.asleep:
            yield from self._awaken(trunk)
        if trunk is not None and trunk.info.block_size == run.info.block_size:
            yield from wake_in_parts(run, trunk.engine, trunk)
        else:
            engine = session.engine_for(run.model, run.info.block_size, run.info.backend)
            yield from wake_in_parts(run, engine, None)
        ms = 1000 * (time.perf_counter() - started)
        self.woken[run.info.run_id] = ms
        log_event(session.session_id, "awake", run.info.run_id, step=len(run.steps), ms=ms)
