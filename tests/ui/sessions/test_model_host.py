"""One load for all who ask, errors as sentences, and nothing resident that nobody uses."""

import gc
import threading
import weakref
from dataclasses import replace

import pytest

from miniinfer.config import SamplingParams
from miniinfer.errors import FetchError
from miniinfer.ui.sessions.model_host import ModelHost, ModelKey
from miniinfer.ui.sessions.session import Session
from tests.ui.waiting import at_once, wait_until

A, B, BROKEN = ModelKey(), ModelKey("b.gguf"), ModelKey("broken.gguf")


class Loader:
    """Stands in for load_model: each load gives a new object around the same weights, named by its source."""

    def __init__(self, model):
        self.model = model
        self.loads: list[str | None] = []
        self.gate = threading.Event()
        self.gate.set()
        self.error: BaseException | None = None
        self._given: list[weakref.ref] = []

    def __call__(self, source, *, device, dtype, progress, choose_backend):
        assert (device, dtype) == ("auto", "float32")
        self.loads.append(source)
        progress("Half way", 0.5)
        assert self.gate.wait(30)
        if self.error is not None:
            raise self.error
        if source == BROKEN.source:
            raise FetchError("There is no network: plug it in.")
        loaded = replace(self.model, name=source or "default")
        self._given.append(weakref.ref(loaded))
        return loaded

    @property
    def resident(self):
        return sum(reference() is not None for reference in self._given)


@pytest.fixture
def loader(model, monkeypatch):
    loader = Loader(model)
    monkeypatch.setattr("miniinfer.models.loader.load_model", loader)
    return loader


@pytest.fixture
def fresh(loader):
    host = ModelHost()
    yield host
    loader.gate.set()
    wait_until(lambda: not loading())
    host.worker.close()
    gc.unfreeze()


def loading():
    return any(thread.name == "model-loader" for thread in threading.enumerate())


def state(host, key=A):
    return host.status(key).state


def load(host, key, session_id="s"):
    host.request(key, session_id)
    wait_until(lambda: state(host, key) in ("ready", "failed") and not loading())


def test_five_visitors_at_the_same_moment_load_once(fresh, loader):
    loader.gate.clear()
    at_once(*(lambda i=i: fresh.request(A, f"s{i}") for i in range(5)))
    wait_until(lambda: fresh.status(A).progress == 0.5)
    assert fresh.status(A).to_json() == {"state": "loading", "text": "Half way", "progress": 0.5}
    assert fresh.get(A) is None
    loader.gate.set()
    wait_until(lambda: state(fresh) == "ready" and not loading())
    assert fresh.num_loads == len(loader.loads) == 1
    sessions = [Session(fresh) for _ in range(5)]
    at_once(*(session.request_model for session in sessions))
    assert len({id(session.model) for session in sessions}) == 1
    assert fresh.num_loads == 1
    for session in sessions:
        session.close()
    assert fresh.get(A) is not None, "the next visitor will want it"


def test_before_anybody_asked_the_state_is_waiting_and_reads_as_loading(fresh):
    assert fresh.status(A).to_json() == {"state": "loading", "text": "Waiting to load the model.", "progress": None}


def test_a_failed_load_is_tried_again_when_the_user_says_so_and_not_by_itself(fresh, loader):
    session = Session(fresh)
    session.choose_model(BROKEN)
    wait_until(lambda: state(fresh, BROKEN) == "failed" and not loading())
    assert session.status.text == "There is no network: plug it in."
    assert session.model is None
    for _ in range(3):
        session.request_model()  # what every run of the page does
    assert not loading()
    assert loader.loads == [BROKEN.source]
    session.choose_model(BROKEN)  # the button
    wait_until(lambda: len(loader.loads) == 2 and not loading())
    assert state(fresh, BROKEN) == "failed"
    assert fresh.num_loads == 0
    other = Session(fresh)
    other.choose_model(BROKEN)
    wait_until(lambda: len(loader.loads) == 3 and not loading())
    session.close()
    other.close()


def test_a_load_that_failed_and_then_works_is_ready(fresh, loader):
    loader.error = MemoryError()
    load(fresh, A)
    assert fresh.status(A).text.startswith("This machine has too little free memory for this model: choose")
    loader.error = None
    load(fresh, A)
    assert state(fresh) == "ready"
    assert fresh.num_loads == 1


def test_an_error_nobody_foresaw_is_shown_and_reaches_the_log(fresh, loader, monkeypatch):
    seen = []
    monkeypatch.setattr(threading, "excepthook", lambda args: seen.append(args.exc_type))
    loader.error = KeyError("odd")
    load(fresh, A)
    assert fresh.status(A).text == "The model could not be loaded (KeyError: 'odd')."
    assert seen == [KeyError]
    loader.error = None
    load(fresh, A)
    assert state(fresh) == "ready"


def test_switching_five_times_leaves_one_model_in_memory(fresh, loader):
    for key in (A, B, A, B, A):
        load(fresh, key)
        assert fresh.get(key) is not None
        assert loader.resident == 1, "only the chosen model is resident"
        assert fresh.get(B if key == A else A) is None


def test_a_model_that_another_session_uses_stays(fresh, loader):
    load(fresh, A, "one")
    load(fresh, B, "two")
    load(fresh, B, "one")
    assert fresh.get(A) is None, "nobody uses A since one has chosen B, which was there already"
    assert loader.resident == 1
    load(fresh, A, "one")
    assert fresh.get(B) is not None, "two still uses B"
    fresh.release("two")
    assert fresh.get(B) is None
    fresh.release("one")
    assert fresh.get(A) is not None, "the last model stays for the next visitor"
    assert loader.loads == [None, "b.gguf", None]


def test_changing_ones_mind_while_a_model_loads_does_not_keep_it(fresh, loader):
    load(fresh, A)
    loader.gate.clear()
    fresh.request(B, "s")
    wait_until(lambda: state(fresh, B) == "loading")
    fresh.request(A, "s")
    loader.gate.set()
    wait_until(lambda: not loading())
    assert fresh.get(A) is not None
    assert fresh.get(B) is None
    assert loader.resident == 1


def test_a_model_that_runs_still_use_is_not_loaded_beside_itself(fresh, loader):
    load(fresh, A)
    session = Session(fresh)
    session.request_model()
    session.new_run("Hi", SamplingParams(), chat=False, one_pass=True)
    first = session.model
    session.choose_model(BROKEN)  # a mistyped path
    fresh.release("s")
    wait_until(lambda: state(fresh, BROKEN) == "failed" and not loading())
    session.step_to(1)
    assert len(session.timeline.current.steps) == 1, "runs keep the model they were made with"
    session.choose_model(A)
    assert session.model is first, "at once, and without a second copy of the weights"
    assert loader.loads == [None, BROKEN.source]
    session.close()


def test_runs_of_a_dropped_model_go_on_and_new_runs_take_the_new_one(fresh, loader):
    session = Session(fresh)
    session.choose_model(A)
    wait_until(lambda: state(fresh) == "ready" and not loading())
    session.new_run("Hi", SamplingParams(temperature=0), chat=False, one_pass=True)
    session.choose_model(B)
    wait_until(lambda: state(fresh, B) == "ready" and not loading())
    session.step_to(2, 60)
    session.new_run("Hi", SamplingParams(temperature=0), chat=False, one_pass=True)
    session.step_to(2, 60)
    old, new = list(session.timeline)[1:]
    assert (old.info.model_name, new.info.model_name) == ("default", "b.gguf")
    assert [t.token_id for t in old.tokens] == [t.token_id for t in new.tokens]
    session.close()
    assert old.engine.pool.num_used == new.engine.pool.num_used == 0


def test_a_file_that_was_replaced_is_loaded_anew_when_it_is_asked_for(loader, fresh, model, monkeypatch):
    key = ModelKey(str(model.source))
    fresh.request(key, "s1")
    wait_until(lambda: fresh.status(key).state == "ready")
    old = fresh.get(key)
    fresh.request(key, "s2")
    assert loader.loads == [key.source], "it is the file that was read"
    monkeypatch.setattr("miniinfer.ui.sessions.model_host.file_state", lambda path: (("another", 1, 2, 3),))
    fresh.request(key, "s1")
    wait_until(lambda: fresh.status(key).state == "ready" and not loading())
    assert loader.loads == [key.source] * 2
    assert fresh.get(key) is not old, "and whoever has the old one keeps it"
