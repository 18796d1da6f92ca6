"""The page of saved runs: search, open, rename, duplicate, delete and take back; strangers' text stays text."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from miniinfer.config import SamplingParams
from miniinfer.ui.runs import page as page_module
from miniinfer.ui.runs.actions import link_to
from miniinfer.ui.saving.saved_runs import SavedRuns
from miniinfer.ui.sessions.run_facts import one_line
from miniinfer.ui.sessions.session import Session
from tests.store.saved import saved
from tests.ui.app_test import App

SHORT = SamplingParams(max_new_tokens=3)
HOSTILE = "<img src=x onerror=alert(1)> **b** $x$ \u202e [l](javascript:1) :material/home:"


@pytest.fixture
def page(app: App) -> App:
    """The page Runs of a tab that has three runs, r1 to r3; r3 branches off r2."""
    for prompt in ("One", "Two"):
        app.session.new_run(prompt, SHORT, chat=False, one_pass=True)
        app.session.step_to(2, math.inf)
    return app.open("runs")


def names(app: App) -> list[str]:
    found = app.test.dataframe
    return list(found[0].value["name"]) if found else []


def choose(app: App, name: str) -> App:
    key = app.test.dataframe[0].proto.id.rpartition("-")[2]
    return app.select(key, rows=[names(app).index(name)])


def press(app: App, label: str) -> App:
    next(button for button in app.test.button if button.label == label).click()
    return app.run()


def test_it_lists_what_is_saved_newest_first_and_finds_it_again(page: App) -> None:
    assert names(page) == ["Two", "One"]
    assert any("2 runs shown. The file takes" in caption.value for caption in page.test.caption)
    page.test.text_input(key="runs_search").set_value("tw")
    assert names(page.run()) == ["Two"]
    page.test.text_input(key="runs_search").set_value("nothing <b>")
    page.run()
    assert "No saved run has “nothing <b>” in its name, prompt or model." in page.texts()


def test_an_empty_list_says_how_a_run_comes_into_it(app: App) -> None:
    assert any("saved by itself" in text for text in app.open("runs").texts())


def test_open_shows_the_run_in_the_workspace(page: App) -> None:
    choose(page, "One")
    assert any(code.value.endswith("run=r2&step=2") for code in page.test.code)
    press(page, "Open")
    assert page.session.timeline.current is not None
    assert page.session.timeline.current.info.run_id == "r2"
    assert "workspace" in page.components


def test_rename_and_duplicate(page: App) -> None:
    choose(page, "One")
    field = next(f for f in page.test.text_input if f.label == "New name")
    field.set_value(HOSTILE)
    press(page, "Rename")
    short = page.session.timeline.get("r2").info.name
    assert short.startswith("<img src=x")
    assert short in names(page.run())
    choose(page, short)
    assert any(short in text for text in page.texts())
    assert not any("<img" in body for body in page.marked_up)
    press(page, "Duplicate")
    assert [n for n in names(page) if n.startswith("Copy of <img")]
    assert page.transport["runs"][-1]["kind"] == "saved"


def test_delete_can_be_taken_back_and_then_be_made_final(page: App) -> None:
    choose(page, "Two")
    press(page, "Delete")
    assert names(page) == ["One"]
    assert "r3" not in page.session.timeline
    assert any("“Two” was deleted" in text for text in page.texts())
    page.session.step_to(3, math.inf)
    press(page, "Undo")
    assert sorted(names(page)) == ["One", "Two"]
    choose(page, "Two")
    press(page, "Open")
    assert page.session.timeline.current is not None
    assert (page.session.timeline.current.info.run_id, len(page.session.timeline.current.steps)) == ("r3", 2)
    page.open("runs")
    choose(page, "One")
    press(page, "Delete")
    press(page, "Remove 1 deleted for good")
    assert "r2" not in [run["id"] for run in page.transport["runs"]]
    assert names(page) == ["Two"]


def test_runs_of_other_sessions_with_hostile_texts_are_text(page: App, saved_runs: SavedRuns) -> None:
    strange = saved("r9", "elsewhere", name=HOSTILE, prompt=HOSTILE * 50)
    saved_runs.ask(lambda store: store.save([strange]))
    shown = one_line(HOSTILE)
    assert "\u202e" not in shown, "it would turn what stands behind it around"
    choose(page.run(), shown)
    assert any(shown in text for text in page.texts())
    assert not any("onerror" in body for body in page.marked_up)
    assert not [b for b in page.test.button if b.label == "Open"], "it opens in a tab of its own"
    field = next(f for f in page.test.text_input if f.label == "New name")
    field.set_value("tame")
    press(page, "Rename")
    assert "tame" in names(page.run())
    choose(page, "tame")
    press(page, "Delete")
    assert "tame" not in names(page)


def test_a_full_file_is_said_and_what_is_in_it_goes_on(
    new_saved_session: Callable[[], Session], saved_runs: SavedRuns
) -> None:
    session = new_saved_session()
    session.new_run("One", SHORT, chat=False, one_pass=True)
    session.step_to(1, math.inf)
    saved_runs.flush()
    store = saved_runs.store
    assert store is not None
    store.max_bytes = store.total_bytes()
    session.step_to(2, math.inf)
    saved_runs.flush()
    assert session.keeper.problem is None
    session.new_run("Two", SHORT, chat=False, one_pass=True)
    session.step_to(2, math.inf)
    saved_runs.flush()
    assert "delete some on the page Runs" in str(session.keeper.problem)
    assert len(store.load_session(session.keeper.token)) == 1
    assert len(store.load_session(session.keeper.token)[0].steps) == 2, "the one that is in it goes on"
    store.delete(session.keeper.token, "r1")
    store.purge()
    store.max_bytes *= 2
    session.step_to(3, math.inf)
    saved_runs.flush()
    assert session.keeper.problem is None
    assert [run.run_id for run in store.load_session(session.keeper.token)] == ["r2"]


@pytest.fixture
def new_saved_session(host, saved_runs):  # type: ignore[no-untyped-def]
    made: list[Session] = []

    def new() -> Session:
        made.append(Session(host, saved_runs))
        return made[-1]

    yield new
    for session in made:
        session.close()


@pytest.mark.parametrize("url", ["http://h:1/runs", "http://h:1/runs/", "http://h:1/", "http://h:1", "http://h:1/runs?a=1"])
def test_a_link_leads_to_the_first_page(url: str) -> None:
    assert link_to(url, "tok-en", "r2", 7) == "http://h:1/?s=tok-en&run=r2&step=7"


def test_the_file_may_be_damaged_in_one_place(page: App, saved_runs: SavedRuns) -> None:
    store = saved_runs.store
    assert store is not None
    store.save([replace(saved("r9", "elsewhere"), name="broken")])
    store._write("UPDATE runs SET data = '{}' WHERE run_id = 'r9'")
    choose(page.run(), "broken")
    assert any("not a saved MiniInfer run" in text for text in page.texts())


def test_a_run_that_is_deleted_where_it_is_not_open_says_so_where_it_is(
    page: App, new_saved_session: Callable[[], Session], saved_runs: SavedRuns
) -> None:
    other = new_saved_session()
    other.new_run("Elsewhere", SHORT, chat=False, one_pass=True)
    other.step_to(1, math.inf)
    choose(page.run(), "Elsewhere")
    press(page, "Delete")
    other.step_to(2, math.inf)
    assert "was deleted in another tab" in str(other.keeper.problem)
    press(page, "Remove 1 deleted for good")
    other.step_to(3, math.inf)
    assert "Elsewhere" not in names(page.run()), "for good"
    other.new_run("Again", SHORT, chat=False, one_pass=True)
    other.step_to(1, math.inf)
    assert other.keeper.problem is None
    choose(page.run(), "Again")
    press(page, "Delete")
    other.step_to(2, math.inf)
    press(page, "Undo")
    assert other.keeper.problem is None
    runs = {line.name: line.num_steps for line in saved_runs.ask(lambda store: store.lines())}  # type: ignore[attr-defined]
    assert runs["Again"] == 2, "with what came to it meanwhile"


def test_more_runs_than_the_list_shows(page: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "MOST", 1)
    assert names(page.run()) == ["Two"]
    assert any("The newest 1 run shown; the search finds the others." in c.value for c in page.test.caption)


def test_a_name_from_right_to_left_does_not_turn_the_line_around(page: App, saved_runs: SavedRuns) -> None:
    strange = [saved("r9", "elsewhere", name="ا" * 9), saved("r8", "elsewhere", name=" ")]
    saved_runs.ask(lambda store: store.save(strange))
    choose(page.run(), "ا" * 9)
    assert any(text.startswith(f"\u2068{'ا' * 9}\u2069 · 2 steps") for text in page.texts())
    assert "no name" in names(page)
