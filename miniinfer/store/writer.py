"""Saving without waiting: one thread writes the newest state of each run, a moment after it changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from miniinfer.store.database import RunStore, StoreError
from miniinfer.store.saved_batch import SavedBatch
from miniinfer.store.saved_run import SavedRun

Snapshot = Callable[[], SavedRun | SavedBatch | None]
SETTLE_SECONDS = 0.3  # what changes again within this is written once
MOST_OF_TIME = 0.1  # the part of the time that writing may take; long runs are written less often


class RunWriter:
    """`changed(key, snapshot)` from any thread; `problem` is what the last write met, or None."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._pending: dict[object, Snapshot] = {}
        self._wake = threading.Condition()
        self._writing = False
        self._closed = False
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
        """Wait until everything that has changed so far is written (or has failed). False on a timeout."""
        with self._wake:
            self._hurry = True
            self._wake.notify_all()
            return self._wake.wait_for(lambda: not self._pending and not self._writing, timeout)

    def close(self) -> None:
        """Write what is left, then end."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join(10)

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._pending or self._closed)
                if not self._closed:
                    settle = max(SETTLE_SECONDS, self._took / MOST_OF_TIME)
                    self._wake.wait_for(lambda: self._hurry or self._closed, settle)
                batch, self._pending, self._hurry = self._pending, {}, False
                if not batch and self._closed:
                    return
                self._writing = True
            begin = time.monotonic()
            try:
                self._write(list(batch.values()))
            finally:
                self._took = time.monotonic() - begin
                with self._wake:
                    self._writing = False
                    self._wake.notify_all()

    def _write(self, snapshots: list[Snapshot]) -> None:
        try:
            found = [snapshot() for snapshot in snapshots]
            self._store.save([one for one in found if isinstance(one, SavedRun)])
            for one in found:
                if isinstance(one, SavedBatch):
                    self._store.save_batch(one)
            self.problem = None
        except StoreError as error:
            self.problem = str(error)
        except Exception as error:  # the thread must live on: the next change may be saved
            self.problem = f"A run could not be saved ({type(error).__name__}: {error}). It goes on, but is not saved."
