"""The batching page, run in process on the real model: steps on request, aborts, refusals, four outcomes, proof."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pandas as pd
import pytest

from miniinfer.config import SamplingParams
from miniinfer.figures.batching.message import NOBODY
from miniinfer.figures.payload import unpack
from miniinfer.trace.batch.file import requests_to_lines
from miniinfer.trace.batch.presets import ONE_LONG, OUT_OF_BLOCKS, PRESETS
from miniinfer.trace.batch.settings import BatchRequest, BatchSettings
from miniinfer.ui.batching import host as batching_host
from miniinfer.ui.batching.form import frame_of, requests_of
from miniinfer.ui.cost.look import TASK
from tests.ui.app_test import App, close_tab
from tests.ui.batching.page import batch_of, batching, finish, press, show, step, texts


def message(app: App) -> tuple[dict, dict[str, np.ndarray]]:
    return unpack(app._components["batching"].bytes)


def fill(app: App, requests: list[BatchRequest] | pd.DataFrame, **settings: object) -> App:
    """Put requests into the form as the editor does, and press Run."""
    filled = app.test.session_state["batching_form"]
    filled.frame = requests if isinstance(requests, pd.DataFrame) else frame_of(requests)
    filled.settings |= settings
    return press(app, "batching_run")


def test_without_a_model_the_page_says_what_it_waits_for(open_app, gate):
    app = batching(open_app(gate.host).run())
    assert "as soon as it is loaded" in texts(app)
    assert app.components == {"transport"}
    assert app.session.batch.run is None


def test_a_visit_finds_the_first_preset_unstepped_and_each_ask_makes_what_it_wants(app: App):
    batching(app)
    header, blobs = message(app)
    assert header["run"]["name"] == ONE_LONG.name
    assert (header["last"], header["steps"], blobs) == (0, [], {})
    step(app, 2)
    header, blobs = message(app)
    trace = batch_of(app).trace
    assert len(trace.steps) in (1, 2), "the time of one ask may be over after one step"
    assert [s["step"] for s in header["steps"]] == list(range(1, len(trace.steps) + 1))
    step(app, 2)
    last = batch_of(app).trace.steps[1]
    before = len(batch_of(app).trace.steps)
    step(app, 1)  # going back runs nothing
    assert len(batch_of(app).trace.steps) == before == 2
    app.run()  # a full run: the browser may know nothing, so everything is sent again
    header, blobs = message(app)
    assert [s["step"] for s in header["steps"]] == [1, 2]
    shown = header["steps"][1]
    assert shown["ms"] == last.step_ms
    assert [row["token"][0] for row in shown["rows"]] == [row.token.token_id for row in last.rows]
    grid = blobs["blocks:2"]
    assert [c != NOBODY for c in grid[:, 0]] == [bool(owners) for owners in last.blocks.owners]
    assert list(grid[:, 2] + 256 * grid[:, 3].astype(int)) == list(last.blocks.filled)


def test_a_request_is_aborted_at_any_moment_and_its_blocks_are_free(app: App):
    batching(app)
    step(app, 1)
    batch = batch_of(app)
    used = batch.run.engine.pool.num_used
    app.ask("batching", n=9, run=batch.run_id, want=None, have=1, abort=0)
    header, _ = message(app)
    assert (header["ask"], header["aborted"], header["error"]) == (9, {"0": len(batch.trace.steps)}, None)
    assert batch.run.engine.pool.num_used < used
    batch.run.engine.check()
    batch.finish()
    ended = {row.request_id for s in batch.trace.steps for row in s.rows if row.finish_reason}
    assert ended == {f"r{i}" for i in range(2, 9)}
    app.ask("batching", n=10, run=batch.run_id, want=3, have=1, abort=99)
    assert message(app)[0]["error"] is None, "an odd place is absent"


def test_what_cannot_run_is_named_and_the_others_go_on(app: App):
    batching(app)
    frame = frame_of([BatchRequest("fine", "Hello"), BatchRequest("odd", "x"), BatchRequest("long", "far " * 400)])
    frame.loc[1, "temperature"] = -1.0
    fill(app, frame, num_blocks=10)
    said = texts(app)
    assert "Request 'odd' does not run." in said
    assert "Request 'long' cannot run." in said
    step(app, 1)
    assert [row.request_id for row in batch_of(app).trace.steps[0].rows] == ["fine"]


@pytest.mark.parametrize(
    ("requests", "settings", "said"),
    [([], {}, "no request to run"), ([BatchRequest("a", "x")] * 2, {}, "'a' stands for more than one"),
     ([BatchRequest("a", "x")], {"token_budget": -1}, "token budget must be"),
     ([BatchRequest("a", "x")], {"num_blocks": 4096, "block_size": 64}, "MiB of KV cache")],
)  # fmt: skip
def test_a_form_that_cannot_run_is_a_sentence_and_the_old_batch_stays(app: App, requests, settings, said):
    batching(app)
    before = batch_of(app).run
    fill(app, requests, **settings)
    assert said in texts(app)
    assert batch_of(app).run is before


def test_all_views_draw_before_and_after_a_step(app: App):
    batching(app)
    for view, said in (("Batched or alone", "No request has a token"), ("Tables", "will fill"),
                       ("Static or continuous", "side by side"), ("Requests and settings", "Change what you like")):
        show(app, view)
        assert said in texts(app)
        assert "batching" in app.components, "keys and transport go on to drive the batch"
    step(app, 2)
    step(app, 2)
    for table, rows in (("Timeline", 2), ("Rows", 8), ("Requests", 8), ("Blocks", 10)):
        app.test.session_state["batching_table"] = table
        show(app, "Tables")
        assert len(app.test.dataframe[0].value) == rows, table


def test_a_preset_fills_the_form_and_starts_it(app: App):
    batching(app)
    app.test.selectbox(key="batching_preset").set_value(OUT_OF_BLOCKS.name)
    app.run()
    trace = batch_of(app).trace
    assert trace.requests == OUT_OF_BLOCKS.requests
    assert trace.settings == OUT_OF_BLOCKS.settings
    show(app, "Requests and settings")
    app.test.number_input(key=next(n.key for n in app.test.number_input if "token_budget" in n.key)).set_value(7)
    press(app, "batching_run")
    assert batch_of(app).trace.settings == BatchSettings(
        max_seqs=5, token_budget=7, block_size=8, num_blocks=14, prefix_caching=False
    )
    assert batch_of(app).name == "Own requests"
    assert app.test.selectbox(key="batching_preset").value == "Own requests"
    assert app.test.session_state["batching_view"] == "Step by step"


def test_what_was_changed_stays_under_a_name_of_its_own_when_a_preset_is_chosen(app: App):
    def choose(name: str) -> None:
        app.test.selectbox(key="batching_preset").set_value(name)
        app.run()

    batching(app)
    filled = app.test.session_state["batching_form"]
    filled.frame = frame_of([BatchRequest("mine", "Hello", _greedy(3))])
    choose(OUT_OF_BLOCKS.name)
    assert batch_of(app).trace.requests == OUT_OF_BLOCKS.requests
    assert app.test.selectbox(key="batching_preset").options[3:] == ["Own requests"]
    choose(ONE_LONG.name)
    assert batch_of(app).trace.requests == ONE_LONG.requests, "the preset as it was"
    fill(app, [BatchRequest("second", "Bye", _greedy(2))])
    assert batch_of(app).name == "Own requests 2"
    assert app.test.selectbox(key="batching_preset").value == "Own requests 2"
    choose("Own requests")
    assert [r.request_id for r in batch_of(app).trace.requests] == ["mine"]
    filled = app.test.session_state["batching_form"]
    filled.frame = frame_of([BatchRequest("changed", "Hello", _greedy(3))])
    choose("Own requests 2")
    assert [r.request_id for r in batch_of(app).trace.requests] == ["second"]
    choose("Own requests")
    assert [r.request_id for r in batch_of(app).trace.requests] == ["changed"]
    assert app.test.selectbox(key="batching_preset").options[3:] == ["Own requests", "Own requests 2"]


def test_a_set_of_ones_own_can_be_deleted(app: App):
    batching(app)
    fill(app, [BatchRequest("mine", "Hello", _greedy(3))])
    show(app, "Requests and settings")
    press(app, "batching_delete")
    assert app.test.selectbox(key="batching_preset").options == [preset.name for preset in PRESETS]
    assert batch_of(app).trace.requests == ONE_LONG.requests


def test_requests_go_out_as_a_file_and_come_in_again(app: App):
    batching(app, "Requests and settings")
    lines = requests_to_lines(OUT_OF_BLOCKS.requests)
    app.test.file_uploader(key="batching_file_open").upload("mine.jsonl", lines, "application/jsonl")
    app.run()
    press(app, "batching_run")
    assert batch_of(app).trace.requests == OUT_OF_BLOCKS.requests
    show(app, "Requests and settings")
    app.test.file_uploader(key="batching_file_open").upload("bad.jsonl", b'{"id": 1}', "application/jsonl")
    app.run()
    assert "bad.jsonl, line 1: the request has no prompt" in texts(app)
    assert requests_of(app.test.session_state["batching_form"].frame)[0] == list(OUT_OF_BLOCKS.requests)


def test_records_of_the_four_outcomes_count_while_they_are_there(app: App, monkeypatch: pytest.MonkeyPatch):
    batching(app)
    fill(app, [BatchRequest("a", "Once", _greedy(3))])
    before, seen = app.session.budget.used_bytes, []
    real = batching_host.SessionBatch.charge

    def charge(batch, step, otherwise):
        nbytes = real(batch, step, otherwise)
        seen.append(app.session.budget.used_bytes)
        return nbytes

    monkeypatch.setattr(batching_host.SessionBatch, "charge", charge)
    show(app, "Static or continuous")
    finish(press(app, "batching_outcomes_run"))
    assert min(seen) > before
    assert app.session.budget.used_bytes == before
    monkeypatch.setattr(batching_host, "measured_bytes", lambda _: 10**12)
    press(app, "batching_outcomes_run")
    if (task := app.test.session_state[TASK]) is not None:  # it may have failed and been taken in already
        task.join(90)
    app.run()
    assert "do not fit into the memory of this tab" in texts(app)
    assert app.session.budget.used_bytes <= before, "nothing of them stays; a run's queries may have made room"


def test_four_outcomes_of_the_same_requests_and_the_proof(app: App):
    batching(app)
    fill(app, [BatchRequest("long", "Once", _greedy(8)), BatchRequest("short", "The sky is", _greedy(2))])
    run = batch_of(app).run
    show(app, "Static or continuous")
    finish(press(app, "batching_outcomes_run"))
    assert batch_of(app).run is run
    assert run.steps == [], "the batch of the first view was not touched"
    table = app.test.dataframe[0].value
    assert list(table["batching"]) == ["static", "continuous"] * 2
    assert list(table["new tokens"]) == [10] * 4
    assert (table[table["batching"] == "static"]["idle"] > 0).all()
    assert (table[table["batching"] == "continuous"]["wasted %"] == 0).all()
    assert list(table["longest"]) == ["long"] * 4
    assert len(app.test.get("plotly_chart")) == 2
    batch_of(app).finish()
    show(app, "Batched or alone")
    finish(press(app, "batching_alone_run"))
    assert "2 of 2 have the same tokens" in texts(app)
    proof = app.test.dataframe[0].value
    assert (proof["largest logit difference"] < 1e-2).all()


def test_a_batch_is_counted_and_goes_with_the_next_one_and_with_the_tab(app: App):
    batching(app)
    budget = app.session.budget
    before = budget.used_bytes
    step(app, 2)
    assert budget.used_bytes > before
    engine = weakref.ref(batch_of(app).run.engine)
    press(app, "batching_run")
    assert budget.used_bytes == before
    gc.collect()
    assert engine() is None
    step(app, 1)
    session, pool = app.session, batch_of(app).run.engine.pool
    close_tab()
    assert session.batch.run is None
    assert pool.num_used == 0
    assert session.budget.used_bytes == 0


def test_records_that_fill_the_budget_end_the_batch_with_a_sentence(app: App, monkeypatch: pytest.MonkeyPatch):
    batching(app)
    monkeypatch.setattr(batching_host, "measured_bytes", lambda _: 10**12)
    step(app, 1)
    assert message(app)[0]["error"] == batching_host.FULL
    assert app.session.batch.run.engine.pool.num_used == 0


def test_an_ask_of_another_batch_changes_nothing(app: App):
    batching(app)
    app.ask("batching", n=4, run="other", want=5, have=3, abort=0)
    header, _ = message(app)
    assert (header["ask"], header["last"], header["aborted"], header["from"]) == (4, 0, {}, 1)


def _greedy(tokens: int) -> SamplingParams:
    return SamplingParams(temperature=0, max_new_tokens=tokens)
