"""A model host around the one loaded model, sessions that are closed and checked, and tabs of the app."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from miniinfer.models.loader import LoadedModel
from miniinfer.ui.batching import host as batching_host
from miniinfer.ui.saving.saved_runs import SavedRuns
from miniinfer.ui.sessions import session as session_module
from miniinfer.ui.sessions.model_host import ModelHost, ModelKey
from miniinfer.ui.sessions.session import Session
from tests.ui.app_test import App, close_tab
from tests.ui.waiting import wait_until


@pytest.fixture(scope="session")
def host(model: LoadedModel) -> Iterator[ModelHost]:
    """A host that has the default model. It went its own way to it, through a loader that gives out the loaded one."""
    host = ModelHost()
    with patch("miniinfer.models.loader.load_model", lambda *args, **kwargs: model):
        host.request(ModelKey(), "the tests")
        wait_until(lambda: host.status(ModelKey()).state == "ready")
    yield host
    host.worker.close()
    gc.unfreeze()


@pytest.fixture(autouse=True)
def asks_are_answered_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ask for several steps is answered early on a slow machine, and the browser asks again: here it need not."""
    monkeypatch.setattr(session_module, "STEPPING_SECONDS", 60.0)
    monkeypatch.setattr(batching_host, "STEPPING_SECONDS", 60.0)


class Gate:
    """A loader that waits until it is opened."""

    def __init__(self, model: LoadedModel) -> None:
        self._model = model
        self._open = threading.Event()
        self.host = ModelHost()

    def load(self, *args: object, **kwargs: object) -> LoadedModel:
        assert self._open.wait(30)
        return self._model

    def open(self) -> None:
        """Let the load end, and wait until the host says so."""
        self._open.set()
        wait_until(lambda: self.host.status(ModelKey()).state == "ready")


@pytest.fixture
def gate(model: LoadedModel) -> Iterator[Gate]:
    """A host whose model is being loaded until `gate.open()`."""
    gate = Gate(model)
    with patch("miniinfer.models.loader.load_model", gate.load):
        yield gate
        gate._open.set()
        wait_until(lambda: not any(t.name == "model-loader" for t in threading.enumerate()))
    close_tab()  # the tab's session needs the worker to close
    gate.host.worker.close()
    gc.unfreeze()


@pytest.fixture
def new_session(host: ModelHost) -> Iterator[Callable[[], Session]]:
    """Makes sessions of one host. At the end each is closed, and must have left nothing behind."""
    made: list[Session] = []

    def new() -> Session:
        made.append(Session(host))
        return made[-1]

    yield new
    for session in made:
        close_and_check(session)


@pytest.fixture
def session(new_session: Callable[[], Session]) -> Session:
    """A session whose example has gone live: one run r1, at its first step."""
    session = new_session()
    assert session.go_live()
    return session


def close_and_check(session: Session) -> None:
    engine = session._engine
    session.close()
    assert session.budget.used_bytes == 0
    if engine is not None:
        assert engine.pool.num_used == 0
        assert engine.sequences == {}
        engine.check()


@pytest.fixture
def saved_runs(tmp_path: Path) -> Iterator[SavedRuns]:
    """Saved runs in a folder of the test's own."""
    saved = SavedRuns(lambda: tmp_path / "home" / "runs.sqlite3")
    yield saved
    saved.close()


@pytest.fixture
def open_app(
    host: ModelHost, saved_runs: SavedRuns, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., App]]:
    """Makes a tab of the app. Every AppTest has the same session id, so a test has one tab at a time."""
    made: list[Session] = []

    def make(used: ModelHost, saved: SavedRuns) -> Session:
        made.append(Session(used, saved))
        return made[-1]

    def new(used: ModelHost = host, **options: object) -> App:
        monkeypatch.setattr(session_module, "get_host", lambda: used)
        return App(made, **options)

    monkeypatch.setattr(session_module, "Session", make)
    monkeypatch.setattr(session_module, "get_saved_runs", lambda: saved_runs)
    close_tab()
    yield new
    close_tab()
    assert all(session.closed for session in made)


@pytest.fixture
def app(open_app: Callable[..., App]) -> App:
    """A tab that has been drawn once, with the model ready."""
    return open_app().run()
