"""The saved runs of this process: one file, one writer, and which session an address belongs to right now."""

from __future__ import annotations

import secrets
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from miniinfer.errors import MiniInferError
from miniinfer.models.paths import data_home
from miniinfer.store.database import RunStore, StoreError
from miniinfer.store.writer import RunWriter, Snapshot
from miniinfer.ui.hosting.hosting import get_hosting
from miniinfer.ui.runs.recordings import Recordings

if TYPE_CHECKING:
    from miniinfer.ui.sessions.session import Session

FILE_NAME = "runs.sqlite3"
TRY_AGAIN_SECONDS = 5.0
EXAMPLE_ID = "example"  # of the run that is there at first, and goes live when the model is loaded


class SavedRuns:
    """Opened when it is first needed. If the file cannot be used, `problem` says so in one sentence, and nothing
    else happens: what is on screen goes on."""

    def __init__(self, path: Callable[[], Path], *, shared: bool = False) -> None:
        """shared: the app is open to others, so each browser lists its own runs alone. A link still opens any run."""
        self._path = path
        self.shared = shared
        self._lock = threading.Lock()
        self._store: RunStore | None = None
        self._writer: RunWriter | None = None
        self._failed: str | None = None
        self._tried = float("-inf")
        self._owned: dict[str, str] = {}
        self.recordings = Recordings()
        self._connected: weakref.WeakValueDictionary[str, Session] = weakref.WeakValueDictionary()

    @property
    def problem(self) -> str | None:
        return self._failed or (self._writer.problem if self._writer is not None else None)

    @property
    def begun(self) -> bool:
        """There is a file. Who only looks for something in it need not make one."""
        with suppress(MiniInferError, OSError):
            return self._path().exists()
        return False

    @property
    def store(self) -> RunStore | None:
        """None if the file cannot be used; it is tried again a little later, and a file that was taken away is made
        anew."""
        with self._lock:
            again = time.monotonic() > self._tried + TRY_AGAIN_SECONDS
            if self._store is not None and (self._store.gone or (self._store.read_only and again)):
                self._store.close()
                self._store, again = None, True
            if self._store is None and again:
                self._tried = time.monotonic()
                try:
                    self._store = RunStore(self._path(), hidden=self.shared)
                    self._failed = None
                except MiniInferError as error:
                    self._failed = str(error)
            return self._store

    def _usable(self) -> RunStore:
        store = self.store
        if store is None:
            raise StoreError(self._failed or "Saved runs cannot be used.")
        return store

    def changed(self, key: object, snapshot: Snapshot) -> None:
        """Have a run saved soon, in the writer's thread; if the file cannot be used now, as soon as it can."""
        _ = self.store  # what is wrong with it is said at once
        with self._lock:
            if self._writer is None:
                self._writer = RunWriter(lambda runs: self._usable().save(runs))
        self._writer.changed(key, snapshot)

    def flush(self) -> None:
        """Wait until what has changed so far is in the file."""
        if self._writer is not None:
            self._writer.flush()

    def ask(self, question: Callable[[RunStore], object]) -> object:
        """The answer of the store, once it is up to date. Raises StoreError if it cannot be used."""
        self._usable()
        self.flush()
        return question(self._usable())

    def own(self, token: str, browser: str) -> None:
        """The session's runs are this browser's. A file that cannot be used says so elsewhere."""
        if self._owned.get(token) == browser or self.store is None:
            return
        with suppress(StoreError):
            self.store.own(token, browser)
            self._owned[token] = browser

    def purge(self, owner: str | None) -> None:
        """Drop deleted runs for good, of this browser or (None) of everybody. Raises StoreError."""
        self.ask(lambda store: store.purge(owner))
        self._owned.clear()

    # Whose address it is

    def connect(self, token: str, session: Session) -> None:
        with self._lock:
            self._connected[token] = session

    def holder(self, token: str) -> Session | None:
        """The session that is connected under this token; one that is just closing counts no more."""
        with self._lock:
            found = self._connected.get(token)
            return None if found is None or found.leaving else found

    def take_over(self, token: str, session: Session) -> bool:
        """Give the token to this session, unless another one is connected under it. On a server that is open to others
        it stays with the browser that it began in. Raises StoreError."""
        owner = self._usable().owner_of(token) if self.shared else None
        if owner is not None and owner != session.keeper.browser:
            return False
        with self._lock:
            found = self._connected.get(token)
            if found is not None and found is not session and not found.leaving:
                return False
            self._connected[token] = session
            return True

    def owns(self, token: str, session: Session) -> bool:
        with self._lock:
            return self._connected.get(token) is session

    def disconnect(self, token: str, session: Session) -> None:
        with self._lock:
            if self._connected.get(token) is session:
                del self._connected[token]

    def close(self) -> None:
        """Write what is left and close the file."""
        if self._writer is not None:
            self._writer.close()
        if self._store is not None:
            self._store.close()


def new_token() -> str:
    """What stands in the address: nobody guesses 72 random bits."""
    return secrets.token_urlsafe(9)


@st.cache_resource(show_spinner=False)
def get_saved_runs() -> SavedRuns:
    """Those of this process."""
    return SavedRuns(lambda: data_home() / FILE_NAME, shared=get_hosting().own_runs_only)
