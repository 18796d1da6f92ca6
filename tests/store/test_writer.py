"""Saving in the background: the newest state wins, nothing is lost at the end, a failure is said and got over."""

import itertools
import threading
from types import SimpleNamespace

import pytest

from miniinfer.store import writer as writer_module
from miniinfer.store.database import RunStore, StoreError
from miniinfer.store.writer import RunWriter
from tests.store.saved import saved


@pytest.fixture
def store(tmp_path):
    store = RunStore(tmp_path / "runs.sqlite3")
    yield store
    store.close()


def test_the_newest_state_is_written_and_a_run_that_is_gone_is_left_out(store):
    writer = RunWriter(lambda runs: store.save(runs))
    for cursor in range(3):
        writer.changed("r1", lambda cursor=cursor: saved("r1", cursor=cursor))
    writer.changed("r2", lambda: None)
    assert writer.flush()
    assert [(run.run_id, run.cursor) for run in store.load_session("s1")] == [("r1", 2)]
    writer.close()


def test_what_changes_quickly_is_written_once(store, monkeypatch):
    saves = []
    monkeypatch.setattr(store, "save", saves.append)
    writer = RunWriter(lambda runs: store.save(runs))
    with writer._wake:  # the writer waits meanwhile
        for cursor in range(3):
            writer.changed("r1", lambda cursor=cursor: saved("r1", cursor=cursor))
    assert writer.flush()
    assert [[run.cursor for run in runs] for runs in saves] == [[2]]
    writer.close()


def test_the_first_change_does_not_wait_for_others_and_the_next_ones_do(store, monkeypatch):
    monkeypatch.setattr(writer_module, "SETTLE_SECONDS", 3600)
    saves, written = [], threading.Event()

    def save(runs):
        saves.append([run.cursor for run in runs])
        written.set()

    writer = RunWriter(save)
    writer.changed("r1", lambda: saved("r1", cursor=0))
    assert written.wait(30), "a step that was seen is in the file, whatever happens to the process next"
    for cursor in (1, 2):
        writer.changed("r1", lambda cursor=cursor: saved("r1", cursor=cursor))
    assert writer.flush()
    assert saves == [[0], [2]]
    writer.close()


def test_closing_writes_what_is_left(store, monkeypatch):
    monkeypatch.setattr(writer_module, "ANSWER_SECONDS", 60)
    writer = RunWriter(lambda runs: store.save(runs))
    writer.changed("r1", lambda: saved("r1"))
    writer.close()
    assert store.load("s1", "r1") == saved("r1")


def test_a_failure_is_said_and_the_next_save_takes_it_back(store, monkeypatch):
    writer = RunWriter(lambda runs: store.save(runs))

    def refuse(runs):
        raise StoreError("The disk is full: free some space.")

    with monkeypatch.context() as patch:
        patch.setattr(store, "save", refuse)
        writer.changed("r1", lambda: saved("r1"))
        assert writer.flush()
        assert writer.problem == "The disk is full: free some space."
    writer.changed("r1", lambda: saved("r1"))
    assert writer.flush()
    assert writer.problem is None
    assert store.load("s1", "r1") == saved("r1")
    writer.close()


def test_a_write_that_waited_for_a_locked_file_does_not_hold_up_the_next(monkeypatch):
    hours = itertools.count(step=10_000.0)
    monkeypatch.setattr(writer_module, "time", SimpleNamespace(monotonic=lambda: next(hours)))
    monkeypatch.setattr(writer_module, "RETRY_SECONDS", 0.01)
    saves, written = [], threading.Event()
    writer = RunWriter(lambda runs: (saves.append(runs), written.set()))
    for cursor in range(2):
        written.clear()
        writer.changed("r1", lambda cursor=cursor: saved("r1", cursor=cursor))
        assert written.wait(30), "by itself, without a flush"
    assert [runs[0].cursor for runs in saves] == [0, 1]
    writer.close()


def test_what_could_not_be_written_is_tried_again_by_itself(store, monkeypatch):
    monkeypatch.setattr(writer_module, "RETRY_SECONDS", 0.01)
    failures, written = iter(range(3)), threading.Event()

    def save(runs):
        if next(failures, None) is not None:
            raise StoreError("The disk is full: free some space.")
        store.save(runs)
        written.set()

    writer = RunWriter(save)
    writer.changed("r1", lambda: saved("r1"))
    assert written.wait(30), "nothing has changed and nobody has asked since"
    assert store.load("s1", "r1") == saved("r1")
    writer.close()
    assert writer.problem is None


def test_a_run_that_is_refused_keeps_no_other_from_being_saved(store):
    writer = RunWriter(lambda runs: store.save(runs))
    writer.changed("r1", lambda: saved("r1"))
    assert writer.flush()
    store.max_bytes = store.total_bytes()
    with writer._wake:  # both in one write
        writer.changed("r2", lambda: saved("r2"))
        writer.changed("r1", lambda: saved("r1", cursor=1))
    assert writer.flush()
    assert "is the limit" in writer.problem
    assert [(run.run_id, run.cursor) for run in store.load_session("s1")] == [("r1", 1)]
    store.max_bytes *= 2
    assert writer.flush()
    assert writer.problem is None
    assert store.load("s1", "r2") == saved("r2")
    writer.close()
    assert writer.flush(), "there is nobody to wait for"
