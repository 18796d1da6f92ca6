"""Runs as files on the page Runs: out, in again as a recording, live again; strangers' files are one sentence."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from miniinfer.config import SamplingParams
from miniinfer.trace.attention.head_scores import HeadScoreBook
from miniinfer.trace.files.format import load_trace, read_trace, trace_bytes
from miniinfer.trace.files.recorded_run import Origin, RecordedRun
from miniinfer.trace.files.recording import recorded_copy
from miniinfer.trace.run import ForceToken
from miniinfer.ui.file_names import file_name
from miniinfer.ui.runs.import_run import EXAMPLE_RUNS, shown_name
from miniinfer.ui.runs.recordings import Recordings
from miniinfer.ui.saving.saved_runs import SavedRuns
from miniinfer.ui.sessions.memory import EXAMPLES_FOLDER
from miniinfer.ui.sessions.session import Session
from tests.store.saved import saved
from tests.trace.files.recorded import make_run
from tests.ui.app_test import App, close_tab

SHORT = SamplingParams(max_new_tokens=4)
HOSTILE = "<img src=x onerror=alert(1)> \u202e **b**"


@pytest.fixture
def page(app: App) -> App:
    app.session.new_run("One", SHORT, chat=False, one_pass=True)
    app.session.step_to(3, math.inf)
    return app.open("runs")


def click(app: App, key: str) -> App:
    app.test.button(key=key).click()
    return app.run()


def upload(app: App, name: str, data: bytes) -> App:
    app.test.file_uploader[0].set_value((name, data, "application/octet-stream"))
    next(button for button in app.test.button if button.label == "Open the file").click()
    return app.run()


def recorded(app: App) -> RecordedRun:
    run = app.session.timeline.current
    assert run is not None
    return app.session.look([run], lambda: recorded_copy(run, Origin("MiniInfer 9", "2026-01-02T03:04:05Z")))


def test_a_run_is_made_into_two_files_whose_sizes_are_said(page: App) -> None:
    click(page, "runs_away_make")
    labels = [button.proto.label for button in page.test.get("download_button")]
    assert [label.split(" (")[0] for label in labels] == ["Save run file", "Save web page"]
    assert all("kB)" in label for label in labels)
    _, run_file, html = page.test.session_state["take_away_made"]
    back = read_trace(run_file, "a.npz")
    run = page.session.timeline.current
    assert run is not None
    assert [m.token_id for m in back.steps] == [m.token_id for m in run.steps]
    assert back.origin.by.startswith("MiniInfer ")
    assert html.startswith(b"<!doctype html>")
    page.session.step_to(4, math.inf)
    assert any(button.label == "Make the files" for button in page.run().test.button), "the run has gone on since"


def test_a_run_without_a_step_says_so(app: App) -> None:
    app.session.new_run("One", SHORT, chat=False, one_pass=True)
    assert any("Step it once first" in caption.value for caption in app.open("runs").test.caption)


def test_a_file_opens_as_a_recording_and_stays_one(page: App) -> None:
    data = trace_bytes(recorded(page))
    upload(page, "one.npz", data)
    assert "workspace" in page.components
    run = page.session.timeline.current
    assert run is not None
    assert (run.info.kind, len(run.steps), page.session.timeline.cursor) == ("recorded", 3, 1)
    assert "is a recording, made by MiniInfer 9 on 2026-01-02" in page.message[0]["note"]
    assert set(page.message[0]["source"].values()) == {"recorded"}
    page.ask(n=3, run=run.info.run_id, force={"step": 1, "token": 5})
    assert "The page Runs can make it live" in page.message[0]["note"] or "page Runs" in page.message[0]["error"]
    page.run()
    assert page.session.timeline.current is run, "it does not go live by itself"


def test_a_recording_goes_live_with_its_tokens_draws_and_times(page: App) -> None:
    trunk = page.session.timeline.current
    assert trunk is not None
    page.session.branch(ForceToken(2, 7))
    page.session.step_to(3, math.inf)
    before = recorded(page)
    upload(page, "one.npz", trace_bytes(before))
    click(page.open("runs"), "runs_away_live")
    run = page.session.timeline.current
    assert run is not None
    assert run.info.kind == "live"
    assert [(m.token_id, m.forced, m.coin, m.step_ms) for m in run.steps] == [
        (m.token_id, m.forced, m.coin, m.step_ms) for m in before.steps
    ]
    page.session.step_to(4, math.inf)
    assert len(run.steps) == 4


def test_a_recording_of_another_model_says_which_one_it_needs(page: App) -> None:
    run = recorded(page)
    object.__setattr__(run, "info", run.info.__class__(**{**vars(run.info), "model_name": "Other"}))
    upload(page, "one.npz", trace_bytes(run))
    click(page.open("runs"), "runs_away_live")
    assert any("This recording is of Other in float32" in text for text in page.texts())
    assert page.session.timeline.current is not None
    assert page.session.timeline.current.info.kind == "recorded"


@pytest.mark.parametrize("data", [b"", b"PK\5\6" + bytes(18), b"\x80\x04cos\nsystem\n.", b"{}" * 5000])
def test_a_strange_file_is_one_sentence_and_nothing_is_lost(page: App, data: bytes) -> None:
    before = page.session.timeline.current
    upload(page, HOSTILE + ".npz", data)
    said = [text for text in page.texts() if "is damaged or is not a MiniInfer run file" in text]
    assert len(said) == 1
    assert "\u202e" not in said[0]
    assert not any("onerror" in body for body in page.marked_up)
    assert page.session.timeline.current is before


def test_a_hostile_name_in_a_file_is_text(page: App) -> None:
    run = recorded(page)
    object.__setattr__(run, "info", run.info.__class__(**{**vars(run.info), "name": HOSTILE, "prompt": HOSTILE * 99}))
    upload(page, "one.npz", trace_bytes(run))
    plain = HOSTILE.replace("\u202e ", "")
    assert page.message[0]["run"]["name"] == plain, "but for what turns the text around it"
    page.open("runs")
    assert any(plain in text for text in page.texts())
    assert not any("onerror" in body for body in page.marked_up)


@pytest.mark.parametrize("example", EXAMPLE_RUNS, ids=lambda example: example.file)
def test_each_example_opens_without_a_model(page: App, example) -> None:  # type: ignore[no-untyped-def]
    click(page, f"runs_open_{example.path.stem}")
    run = page.session.timeline.current
    assert isinstance(run, RecordedRun)
    assert run.complete
    assert "workspace" in page.components


def test_the_run_menu_leads_to_the_page(page: App) -> None:
    page.open("workspace")
    page.send("transport", {"page": "runs"})
    assert any(field.key == "runs_search" for field in page.test.text_input)
    page.open("workspace")
    page.send("transport", {"page": "elsewhere"})
    assert "workspace" in page.components


def test_names_of_files_and_of_strangers_files() -> None:
    assert file_name("miniinfer", "Ein “Gedicht”: <b>/../x") == "miniinfer_ein-gedicht-b-x"
    assert file_name("***") == "run"
    assert file_name("x" * 100) == "x" * 40
    assert shown_name("a\nb\u202e.npz") == "a�b�.npz"
    assert len(shown_name("x" * 900)) == 60


def test_an_app_that_is_open_to_others_lists_a_browsers_own_runs(page: App, saved_runs: SavedRuns) -> None:
    saved_runs.ask(lambda store: store.save([saved("r9", "elsewhere", name="Somebody's")]))

    def names() -> set[str]:
        return set(page.run().test.dataframe[0].value["name"])

    assert names() == {"One", "Somebody's"}
    saved_runs.shared = True
    assert names() == {"One"}
    assert any("of this browser shown" in caption.value for caption in page.test.caption)
    assert page.transport["browser"] == page.session.keeper.browser


def test_a_recording_of_a_long_run_is_on_every_page_what_it_is(page: App) -> None:
    run = page.session.timeline.current
    assert run is not None
    small = page.session.look([run], lambda: recorded_copy(run, row_bytes=1000))
    assert not small.complete
    page.session.add_recording(small)
    for name in ("attention", "kv_cache", "sampling", "cost", "inside", "tokenizer", "compare", "runs", "workspace"):
        page.open(name)
    page.open("attention")
    page.test.number_input(key="attention_layer").set_value(2)
    assert any("keeps the whole pattern of layer" in text for text in page.run().texts())
    assert any("once this recording is live" in text for text in page.open("sampling").texts())


def test_a_reload_finds_the_recording_again_and_another_tab_gets_it_too(
    page: App, open_app: Callable[..., App], saved_runs: SavedRuns
) -> None:
    upload(page, "one.npz", trace_bytes(recorded(page)))
    run = page.session.timeline.current
    assert run is not None
    page.ask(n=3, run=run.info.run_id, cursor=3)
    address = {"s": page.session.keeper.token, "run": run.info.run_id, "step": "3"}
    page.session.leaving = False
    other = Session(page.session.host, saved_runs)
    assert other.keeper.come_back(address["s"], address["run"], 2)
    assert other.timeline.current is not None
    assert (other.timeline.current.info.kind, other.timeline.cursor) == ("recorded", 2)
    assert other.keeper.token != address["s"]
    other.close()
    close_tab()
    again = open_app(**address).run()
    header, _ = again.message
    assert (header["run"]["id"], header["run"]["kind"], header["cursor"]) == (address["run"], "recorded", 3)
    assert "is a recording" in header["note"]
    assert "saved" in {entry["kind"] for entry in again.transport["runs"]}, "the runs of the session came along"
    assert again.session.timeline.new_id() not in {entry["id"] for entry in again.transport["runs"]}


def test_recordings_in_memory_have_an_end() -> None:
    kept, run = Recordings(most_bytes=1), make_run()
    kept.keep("a", "r1", run)
    assert kept.get("a", "r1") is run, "one is always kept"
    kept.keep("a", "r2", run)
    assert (kept.get("a", "r1"), kept.get("a", "r2"), kept.get("a", None)) == (None, run, None)


def test_the_example_of_a_list_shows_the_head_that_its_words_name() -> None:
    run = load_trace(EXAMPLES_FOLDER / "copy.npz")
    induction = HeadScoreBook(run).scores(len(run.pattern)).scores["induction"]
    assert run.info.default_head == (17, 5)
    assert induction[17, 5] == induction.max() > 0.6
