"""A batch outlives its tab: what was typed is there again, and its steps are computed again with the same tokens."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from miniinfer.config import SamplingParams
from miniinfer.figures.payload import unpack
from miniinfer.trace.batch.presets import ONE_LONG
from miniinfer.trace.batch.settings import BatchRequest
from miniinfer.ui.batching import back as batching_back
from miniinfer.ui.batching.form import frame_of, frame_of_set, requests_of, saved_set
from tests.ui.app_test import App, close_tab
from tests.ui.batching.page import batch_of, batching, press, step, texts

TYPED = [
    BatchRequest("a", 'He said "no"\n<b>', SamplingParams(temperature=0, max_new_tokens=4, stop=("\n", "\\"))),
    BatchRequest("b", "مرحبا 😀", SamplingParams(seed=2**64 - 1, max_new_tokens=3, stop_ids=(7,)), 1, True),
    BatchRequest("c", "Once", SamplingParams(temperature=0, max_new_tokens=3, order=("top_p", "top_k", "min_p",
                 "temperature", "repetition", "presence_frequency"))),
]  # fmt: skip


def tokens(app: App) -> list[list[tuple[str, int]]]:
    trace = batch_of(app).trace
    return [[(row.request_id, row.token.token_id) for row in s.rows if row.token] for s in trace.steps]


def loaded_anew(app: App, open_app) -> App:
    """The same address, as after a reload: the old tab's connection has gone."""
    address = app.address
    close_tab()
    return batching(open_app(**address).run())


def run_typed(app: App) -> App:
    filled = batching(app).test.session_state["batching_form"]
    filled.frame = frame_of(TYPED)
    filled.settings |= {"token_budget": 7, "num_blocks": 0}
    return press(app, "batching_run")


def test_a_batch_in_the_middle_comes_back_as_far_as_it_had_come(app: App, open_app):
    run_typed(app)
    step(app, 2)
    app.ask("batching", n=9, run=batch_of(app).run_id, want=None, have=2, abort=2)
    step(app, 3)
    before = tokens(app)
    assert len(before) == 3
    again = loaded_anew(app, open_app)
    batch = batch_of(again)
    assert batch.trace.requests == tuple(TYPED)
    assert (batch.trace.settings.token_budget, batch.name) == (7, "Own requests")
    assert "had come to step 3" in texts(again)
    header, _ = unpack(again._components["batching"].bytes)
    assert (header["run"]["resume"], header["last"]) == (3, 0), "the browser asks for it by itself"
    step(again, 1)
    twice = loaded_anew(again, open_app)
    assert batch_of(twice).resume == 3, "loaded anew on the way there"
    step(twice, 3)
    assert tokens(twice) == before
    assert batch_of(twice).trace.aborted == {"c": 2}
    press(twice, "batching_run")
    assert batch_of(twice).resume == 0
    assert "had come to" not in texts(twice)


def test_what_was_typed_and_not_yet_run_is_there_again(app: App, open_app):
    run_typed(app)
    filled = app.test.session_state["batching_form"]
    filled.frame = filled.frame.assign(temperature=-1.0)
    app.test.selectbox(key="batching_preset").set_value(ONE_LONG.name)
    app.run()
    again = loaded_anew(app, open_app)
    assert batch_of(again).trace.requests == ONE_LONG.requests
    assert again.test.selectbox(key="batching_preset").options[3:] == ["Own requests"]
    again.test.selectbox(key="batching_preset").set_value("Own requests")
    again.run()
    assert "'a' does not run" in texts(again), "right or wrong, it is what was typed"
    assert list(again.test.session_state["batching_form"].frame["id"]) == ["a", "b", "c"]


def test_a_visit_that_did_nothing_is_not_saved(app: App, saved_runs):
    batching(app)
    token = app.session.keeper.token
    close_tab()
    found: list[object] = []
    saved_runs.ask(lambda store: found.append(store.load_batch(token)))
    assert found == [None]


def test_with_another_model_the_batch_is_not_run_again(app: App, open_app):
    run_typed(app)
    step(app, 1)
    with patch.object(batching_back, "model_words", lambda _: "another in packed"):
        again = loaded_anew(app, open_app)
        assert "another model is loaded now" in texts(again)
    assert batch_of(again).trace.requests == tuple(TYPED)
    assert batch_of(again).resume == 0


def test_a_batch_whose_memory_was_lent_comes_back(app: App):
    run_typed(app)
    step(app, 2)
    before = tokens(app)
    assert batch_of(app).give_up()
    app.run()
    assert batch_of(app).resume == 2
    step(app, 2)
    assert tokens(app) == before


@pytest.mark.parametrize("requests", [TYPED, []])
def test_a_set_is_the_same_after_it_was_saved(requests: list[BatchRequest]):
    saved = saved_set("x", None, frame_of(requests), {})
    assert requests_of(frame_of_set(saved)) == (requests, [])
    assert list(frame_of_set(saved).dtypes.astype(str)) == list(frame_of(requests).dtypes.astype(str)) or not requests
