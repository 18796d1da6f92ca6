"""Saving without waiting: one thread writes the newest state of each run, a moment after it changed.

What cannot be written (a full disk, a locked file) is kept and tried again, until a newer state of the run is there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from miniinfer.store.database import RunRefusedError, StoreError
from miniinfer.store.saved_batch import SavedBatch
from miniinfer.store.saved_run import SavedRun

Saved = SavedRun | SavedBatch
Snapshot = Callable[[], Saved | None]
RETRY_SECONDS = 10.0  # what could not be written is tried again this often, whether or not something changes
ANSWER_SECONDS = 0.05  # whoever asked for the change is answered first
SETTLE_SECONDS = 0.3  # between two writes: what changes again within this is written once
MOST_OF_TIME = 0.1  # the part of the time that writing may take; long runs are written less often


class RunWriter:
    """`changed(key, snapshot)` from any thread; `problem` is what the last write met, or None."""

    def __init__(self, save: Callable[[Sequence[Saved]], None]) -> None:
        """save: writes runs, all or none, or raises StoreError."""
        self._save = save
        self._pending: dict[object, Snapshot] = {}
        self._unsaved: dict[tuple[str, str], Saved] = {}  # whole states, for the runs may go
        self._wake = threading.Condition()
        self._writing = False
        self._closed = False
        self._ended = False
        self._hurry = False
        self._took = 0.0
        self.problem: str | None = None
        self._thread = threading.Thread(target=self._run, name="run-writer", daemon=True)
        self._thread.start()

    def changed(self, key: object, snapshot: Snapshot) -> None:
        """Have this run, or a session's batch, written soon. `snapshot` is called in the writer's thread; None leaves
        it out."""
        with self._wake:
            self._pending[key] = snapshot
            self._wake.notify()

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until everything that has changed so far is written (or has failed once more). False on a timeout."""
        with self._wake:
            self._hurry = True
            self._wake.notify_all()
            return self._wake.wait_for(
                lambda: self._ended or not (self._pending or self._writing or self._hurry), timeout
            )

    def close(self) -> None:
        """Write what is left, then end."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join(10)

    def _run(self) -> None:
        closed, wrote = False, float("-inf")
        while not closed:
            with self._wake:
                self._wake.wait_for(
                    lambda: self._pending or self._hurry or self._closed, RETRY_SECONDS if self._unsaved else None
                )
                if self._pending and not self._closed:
                    # A write that waited for a locked file took long, and says nothing of how long the next one takes.
                    settle = max(SETTLE_SECONDS, min(self._took / MOST_OF_TIME, RETRY_SECONDS))
                    wait = max(ANSWER_SECONDS, wrote + settle - time.monotonic())
                    self._wake.wait_for(lambda: self._hurry or self._closed, wait)
                batch, self._pending, self._hurry = self._pending, {}, False
                self._writing, closed = True, self._closed
            begin = time.monotonic()
            try:
                self._write(list(batch.values()))
            finally:
                wrote = time.monotonic()
                self._took = wrote - begin
                with self._wake:
                    self._writing, self._ended = False, closed
                    self._wake.notify_all()

    def _write(self, snapshots: list[Snapshot]) -> None:
        try:
            runs = [run for run in (snapshot() for snapshot in snapshots) if run is not None]
            self._unsaved |= {_key(run): run for run in runs}
            self.problem = self._save_all(list(self._unsaved.values())) if self._unsaved else None
        except StoreError as error:
            self.problem = str(error)
        except Exception as error:  # the thread must live on: the next change may be saved
            self.problem = f"A run could not be saved ({type(error).__name__}: {error}). It goes on, but is not saved."

    def _save_all(self, runs: list[Saved]) -> str | None:
        """All at once; if the file takes some and not others, each for itself. What a refused one met, or None."""
        try:
            self._save(runs)
            self._unsaved.clear()
            return None
        except RunRefusedError as error:
            refused = str(error)
        for run in runs:
            try:
                self._save([run])
                del self._unsaved[_key(run)]
            except RunRefusedError as error:
                refused = str(error)
        return refused


def _key(saved: Saved) -> tuple[str, str]:
    """Session and run; a session has one batch."""
    return saved.session, saved.run_id if isinstance(saved, SavedRun) else ""
