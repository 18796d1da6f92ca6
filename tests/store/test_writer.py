"""Saving in the background: the newest state wins, nothing is lost at the end, a failure is said and got over."""

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


def test_closing_writes_what_is_left(store, monkeypatch):
    monkeypatch.setattr(writer_module, "SETTLE_SECONDS", 60)
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
