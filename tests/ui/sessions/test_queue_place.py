"""Who waits for the engine sees how many come first, and nobody else does."""

import threading

import pytest

from miniinfer.ui.sessions.queue_place import place_text
from tests.ui.waiting import wait_until


@pytest.fixture
def held(host):
    """Keeps the engine's thread busy for others until it is let go; the others it holds take turns."""
    let_go, started = threading.Event(), threading.Event()
    futures = []

    def hold():
        started.set()
        assert let_go.wait(30)

    def hold_for(*others):
        futures.append(host.worker.submit(hold, key="the first"))
        assert started.wait(30)
        futures.extend(host.worker.submit(lambda: None, key=other) for other in others)
        return let_go

    yield hold_for
    let_go.set()
    for future in futures:
        future.result(30)


def test_the_place_is_counted_in_keys_and_the_one_that_runs_is_before_all(host, held):
    let_go = held("a", "b", "a")
    waiting = host.worker.submit(lambda: None, key="me")
    host.worker.submit(lambda: None, key="c")
    assert [host.worker.place_of(key) for key in ("a", "b", "me", "c", "nobody")] == [1, 2, 3, 4, 0]
    assert host.worker.num_waiting == 5
    let_go.set()
    waiting.result(30)
    assert host.worker.place_of("me") == 0


def test_whose_own_job_runs_has_nobody_before_their_next_one(host, held):
    held("a")
    host.worker.submit(lambda: None, key="the first")
    assert host.worker.place_of("the first") == 1, "a comes first; what runs is their own"


@pytest.mark.parametrize("how", ["an ask", "a fragment that draws itself", "a page"])
def test_who_waits_reads_it_and_it_goes_when_their_turn_has_come(app, held, monkeypatch, how):
    place = app.session.queue_place
    drawn, show = [], place._show

    def spy(text, context):
        """What is drawn and taken away again in one run never leaves AppTest's queue."""
        drawn.append(text)
        show(text, context)

    monkeypatch.setattr(place, "_show", spy)
    let_go = held("one", "two")
    texts = []

    def watch():
        wait_until(lambda: place.shown != "")
        texts.append(place.shown)
        let_go.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    if how == "a page":
        app.run()
    else:
        app.ask(n=1, run="r1", want=2 if how == "an ask" else None, cursor=1)
    watcher.join(30)
    assert texts == [place_text(3)]
    assert texts[0].startswith("3 before you")
    assert place.shown == ""
    assert (drawn[0], drawn[-1]) == (texts[0], ""), "drawn while it was waiting, and taken away"
    assert app.texts("queue_place") == []
    assert app.message[0]["last"] == (2 if how == "an ask" else 1)


def test_who_gets_a_turn_at_once_sees_nothing(app):
    app.ask(n=1, run="r1", want=2, cursor=2)
    assert app.texts("queue_place") == []
    assert app.session.queue_place.shown == ""
