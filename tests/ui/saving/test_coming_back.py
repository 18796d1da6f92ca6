"""Runs outlive their session: the same address brings them back, a second tab gets a copy, nothing saved is lost."""

import gc
import math
from dataclasses import replace
from unittest.mock import patch

import pytest

from miniinfer.config import SamplingParams
from miniinfer.figures.payload import unpack
from miniinfer.figures.workspace import Selection
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.run import ForceToken
from miniinfer.ui.ask import Ask
from miniinfer.ui.sessions.model_host import ModelHost, ModelKey
from miniinfer.ui.sessions.session import MAX_RUNS, Session
from tests.ui.app_test import close_tab
from tests.ui.waiting import at_once, wait_until

SHORT = SamplingParams(max_new_tokens=6, seed=5)


def saved(saved_runs, session):
    found = {}
    saved_runs.ask(lambda store: found.update({r.run_id: r for r in store.load_session(session.keeper.token)}))
    return found


def outcome(run):
    return [(m.step, m.token_id, m.coin, m.forced, m.step_ms, m.kv_used_bytes) for m in run.steps], run.finish_reason


def ids(session):
    return [run.info.run_id for run in session.timeline]


# Saving


def test_a_visit_saves_nothing_and_the_first_step_does(visit, saved_runs):
    session = visit()
    session.go_live()
    assert saved(saved_runs, session) == {}
    session.step_to(2, math.inf)
    session.handle(Ask(2, "r1", cursor=1))
    form = saved(saved_runs, session)["r1"]
    assert (len(form.steps), form.cursor) == (2, 1)
    session.rename("r1", "Paris?")
    session.branch(ForceToken(1, 11))
    session.new_run("Hi", SHORT, chat=True, one_pass=False)
    session.step_to(99, math.inf)
    forms = saved(saved_runs, session)
    assert forms["r1"].name == "Paris?"
    assert (forms["r2"].parent, forms["r2"].fork_step, forms["r2"].forced_token) == ("r1", 1, 11)
    assert (forms["r3"].finish_reason, forms["r3"].chat, forms["r3"].one_pass) == ("length", True, False)
    assert forms["r3"].model.file_bytes == 98_362_432


def test_a_file_that_cannot_be_used_is_said_and_the_run_goes_on(host, tmp_path):
    from miniinfer.ui.saving.saved_runs import SavedRuns

    (tmp_path / "file").write_text("")
    session = Session(host, SavedRuns(lambda: tmp_path / "file" / "runs.sqlite3"))
    session.go_live()
    session.step_to(4, math.inf)
    header, _ = unpack(session.message(Selection()))
    assert "goes on, but is not saved" in header["error"]
    assert (header["last"], header["cursor"]) == (4, 4)
    session.close()


# The same address again


def test_a_reload_brings_back_the_run_its_trunk_and_the_cursor(app, open_app):
    app.ask(n=1, run="r1", want=5, cursor=5, have={"meta": 1, "tok": 6, "kv": 5})
    app.session.branch(ForceToken(3, 11))
    app.session.step_to(6, math.inf)
    app.session.timeline.cursor = 4
    address = {"s": app.session.keeper.token, "run": "r2", "step": "4"}
    before = {run.info.run_id: outcome(run) for run in app.session.timeline}
    first = app.session
    close_tab()
    again = open_app(**address).run()
    session = again.session
    assert session is not first
    header, _ = again.message
    assert (header["run"]["id"], header["cursor"], header["last"]) == ("r2", 4, 6)
    assert header["run"]["resumed"] == 6
    assert "is back at step 4" in header["note"]
    assert header["error"] is None
    assert {run.info.run_id: outcome(run) for run in session.timeline} == before
    r1, r2 = session.timeline.get("r1"), session.timeline.get("r2")
    assert r1.engine is r2.engine
    assert again.address == address
    again.open("sampling")
    assert again.address == address
    session._engine.check()
    session.new_run("Hi", SHORT, chat=False, one_pass=True)
    assert ids(session)[-1] == "r3", "no id is given twice"


@pytest.mark.parametrize("page", ["sampling", "compare", "runs"])
def test_it_comes_back_on_any_page(app, open_app, page):
    app.session.step_to(3, math.inf)
    address = {"s": app.session.keeper.token, "run": "r1", "step": "2"}
    close_tab()
    again = open_app(**address).open_first(page)
    assert (again.transport["run"], again.transport["cursor"], again.transport["last"]) == ("r1", 2, 3)
    assert any("is back at step 2" in text for text in again.texts())


def test_an_interrupted_run_goes_on_to_the_same_end(visit):
    whole = visit()
    whole.new_run("Once upon a time", replace(SHORT, repetition_penalty=1.2), chat=False, one_pass=False)
    whole.step_to(99, math.inf)
    for count in (0, 2, 6):
        session = visit()
        session.new_run("Once upon a time", replace(SHORT, repetition_penalty=1.2), chat=False, one_pass=False)
        session.step_to(count, math.inf)
        session.close()
        again = visit()
        assert again.keeper.come_back(session.keeper.token, "r1", 0)
        assert again.go_live()
        again.step_to(99, math.inf)
        run = again.timeline.current
        assert [t.token_id for t in run.tokens] == [t.token_id for t in whole.timeline.current.tokens]
        assert run.finish_reason == whole.timeline.current.finish_reason


def test_other_runs_of_the_session_stand_in_the_menu_and_come_back_when_opened(visit):
    session = visit()
    session.go_live()
    for prompt in ("One", "Two", "Three"):
        session.new_run(prompt, SHORT, chat=False, one_pass=True)
        session.step_to(2, math.inf)
    session.close()
    again = visit()
    again.keeper.come_back(session.keeper.token, "r4", 1)
    again.go_live()
    assert ids(again) == ["r4"]
    assert [(r["id"], r["kind"]) for r in again.transport(True)["runs"]] == [
        ("r2", "saved"), ("r3", "saved"), ("r4", "live")
    ]  # fmt: skip
    again.handle(Ask(1, open="r2"))
    assert (again.timeline.current.info.run_id, again.timeline.current.info.prompt) == ("r2", "One")
    again.bring_back_all()
    assert ids(again) == ["r4", "r2", "r3"]
    assert again.timeline.current.info.run_id == "r2", "the one in view stays there"
    again.handle(Ask(2, open="r9"))
    assert "no run 'r9'" in again.error


def test_runs_that_left_memory_come_back_too(visit):
    session = visit()
    for number in range(MAX_RUNS + 1):
        session.new_run(f"Number {number}", SHORT, chat=False, one_pass=True)
        session.step_to(1, math.inf)
    assert "r1" not in session.timeline
    session.handle(Ask(1, open="r1"))
    assert session.error is None
    assert session.timeline.current.info.prompt == "Number 0"
    assert len(session.timeline) == MAX_RUNS


# Somebody is there already


def test_a_second_tab_gets_a_copy_and_the_first_is_not_touched(visit, saved_runs):
    first = visit()
    first.go_live()
    first.step_to(4, math.inf)
    first.branch(ForceToken(2, 11))
    before = [outcome(run) for run in first.timeline]
    second = visit()
    assert second.keeper.come_back(first.keeper.token, "r2", 2)
    assert second.go_live()
    assert second.keeper.token != first.keeper.token
    copy = second.timeline.current
    assert (second.timeline.cursor, outcome(copy)) == (2, before[1])
    assert "copy of your own" in second.note
    second.step_to(6, math.inf)
    second.rename(copy.info.run_id, "mine")
    assert [outcome(run) for run in first.timeline] == before
    assert {r.name for r in saved(saved_runs, first).values()}.isdisjoint({"mine"})
    assert sorted(saved(saved_runs, second)) == ["r1", "r2"], "with the trunk that it left"
    assert saved(saved_runs, second)["r2"].parent == "r1"


def test_a_reload_that_comes_before_the_first_session_is_closed_takes_its_place(visit, saved_runs):
    first = visit()
    first.go_live()
    first.step_to(3, math.inf)
    first.leaving = True  # its tab has gone; the closing thread has not begun
    second = visit()
    assert second.keeper.come_back(first.keeper.token, "r1", 3)
    assert second.go_live()
    assert second.keeper.token == first.keeper.token
    second.step_to(5, math.inf)
    first.timeline.cursor = 0
    first.keeper.changed(first.timeline.current)
    first.close()
    assert (len(saved(saved_runs, second)["r1"].steps), saved(saved_runs, second)["r1"].cursor) == (5, 5)


def test_on_a_server_for_many_another_browser_gets_a_copy_although_the_tab_has_gone(visit, saved_runs, monkeypatch):
    monkeypatch.setattr(saved_runs, "shared", True)
    first = visit()
    first.keeper.browser = "browser-mine"
    first.go_live()
    first.step_to(3, math.inf)
    first.new_run("Nobody else's business", SHORT, chat=False, one_pass=True)
    first.step_to(1, math.inf)
    token = first.keeper.token
    first.close()
    guest = visit()
    guest.keeper.browser = "browser-else"
    assert guest.keeper.come_back(token, "r1", 2)
    guest.go_live()
    assert "copy of your own" in guest.note
    assert guest.keeper.token != token
    assert (ids(guest), guest.timeline.cursor, guest.keeper.waiting) == (["r1"], 2, {}), "the run of the link alone"
    guest.step_to(5, math.inf)
    owner = visit()
    owner.keeper.browser = "browser-mine"
    assert owner.keeper.come_back(token, "r1", None)
    owner.go_live()
    assert (owner.keeper.token, len(owner.timeline.current.steps)) == (token, 3), "as it was left"


def test_two_reloads_at_once_leave_one_owner_and_one_copy(visit):
    first = visit()
    first.go_live()
    first.step_to(3, math.inf)
    token = first.keeper.token
    first.close()
    both = [visit(), visit()]
    at_once(*(lambda s=s: s.keeper.come_back(token, "r1", 2) for s in both))
    assert [s.keeper.token for s in both].count(token) == 1
    for session in both:
        assert session.go_live()
        assert len(session.timeline.current.steps) == 3


# What cannot come back is said by name, and stays in the list


def test_a_model_that_is_gone_or_was_replaced_is_named_and_the_run_stays_listed(visit, saved_runs):
    session = visit()
    session.go_live()
    session.step_to(2, math.inf)
    session.close()
    token = session.keeper.token
    for change, sentence in (
        ({"source": "/nowhere/m.gguf", "file_sample": "0" * 32}, "was made with /nowhere/m.gguf, which is not there"),
        ({"file_bytes": 5, "file_sample": None}, "of 5 bytes, and the file there has 98,362,432: it was replaced"),
        ({"file_sample": "0" * 32}, "has the same size and other weights: it was replaced"),
    ):
        form = saved(saved_runs, session)["r1"]
        saved_runs.ask(lambda store, f=form, c=change: store.save([replace(f, model=replace(f.model, **c))]))
        again = visit()
        with pytest.raises(Exception, match=sentence):
            again.keeper.come_back(token, "r1", 2)
        assert [r["id"] for r in again.transport(True)["runs"]] == ["example", "r1"]
        assert again.go_live(), "the example goes live in its place"
        assert "r1" not in again.timeline
        again.close()
        saved_runs.ask(lambda store, f=form: store.save([f]))


def test_another_model_is_loaded_for_it(visit, model, saved_runs):
    def load(source, *, device, dtype, progress, choose_backend):
        loads.append(dtype)
        return model

    loads = []
    with patch("miniinfer.models.loader.load_model", load):
        host = ModelHost()
        session = Session(host, saved_runs)
        session.choose_model(ModelKey(dtype="bfloat16"))
        wait_until(lambda: session.status.state == "ready")
        session.new_run("Hi", SHORT, chat=False, one_pass=True)
        session.step_to(1, math.inf)
        session.close()
        other = visit()
        again = Session(host, saved_runs)
        assert again.keeper.come_back(session.keeper.token, "r1", 1)
        assert again.key == ModelKey(dtype="bfloat16"), "not the one of a new session"
        assert other.key == ModelKey()
        wait_until(lambda: again.status.state == "ready")
        assert again.go_live()
        assert isinstance(again.timeline.current, LiveRun)
        again.close()
    assert loads[0] == "bfloat16"
    host.worker.close()
    gc.unfreeze()
