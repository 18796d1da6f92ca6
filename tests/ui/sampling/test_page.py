"""The sampling page, run in process: linked to run and cursor, its views, its buttons, its sentences."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from miniinfer.config import SamplingParams
from miniinfer.models.display import visible
from miniinfer.trace.run import ForceToken
from miniinfer.trace.sampling.sampling import sampling_of
from tests.ui.app_test import MARKUP, App
from tests.ui.sampling.page import current, field, frame, plots, sampling, show, texts

VIEWS = ["Stages", "Any token", "Order", "The draw", "What if", "Branches", "Side by side", "Predict"]
HOSTILE = "<img src=x onerror=alert(1)> **x** :material/home: $a$ `b`"


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_has_at_most_two_plots_and_a_table(app: App, view: str) -> None:
    sampling(app, view=view)
    assert len(plots(app)) <= 2
    if view == "The draw":
        app.test.button(key="sampling_thousand").click()
        app.run()
        assert len(plots(app)) == 2
    if view not in ("Predict", "Side by side"):
        assert len(app.test.dataframe) > 0


def test_the_page_stands_on_the_cursor_and_the_transport_moves_it(app: App) -> None:
    sampling(app)
    run = current(app)
    assert texts(app).startswith("Step 3: after")
    assert frame(app)["setting"].iloc[-1] == f"coin {run.steps[2].coin:.4f}"
    app.ask("transport", run=run.info.run_id, want=2, cursor=2, full=True)
    assert texts(app).startswith("Step 2: after")
    app.ask("transport", run=run.info.run_id, cursor=0, full=True)
    assert "No token has been chosen yet: you stand before step 1" in texts(app)
    assert f"The coin of the first output token is fixed already: {run.steps[0].coin:.6f}" in texts(app)
    plan = frame(app)
    assert plan["stage"].tolist() == [
        "Model's logits", "Repetition", "Presence, frequency", "Temperature", "Top-k", "Top-p", "Min-p", "Softmax",
        "Draw",
    ]  # fmt: skip
    assert plan["what it will do"][5] == "keeps the smallest set of best tokens that reaches 0.95 of the probability"
    app.test.button(key="sampling_first_token").click()
    app.run()
    assert texts(app).startswith("Step 1: after")


def test_all_tokens_count(app: App) -> None:
    sampling(app)
    assert frame(app)["tokens left"].iloc[0] == 49_152
    labels = plots(app)[0]["layout"]["yaxis"]["ticktext"]
    assert labels[-1] == "the other 49,140 tokens"


def test_logits_that_are_no_numbers_are_a_sentence_in_every_view(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    sampling(app)
    run = current(app)
    monkeypatch.setattr(run, "logits_at", lambda position: torch.full((49_152,), math.nan))
    for view in VIEWS:
        show(app, view)
        assert "The model's logits are not usable (the best is nan)" in texts(app)


def test_a_prefill_that_is_not_finished_and_a_run_that_has_not_begun_are_sentences(app: App) -> None:
    app.session.new_run("One two three", SamplingParams(), chat=False, one_pass=False)
    sampling(app, step=1)
    assert "Step 1 chose no token: the prompt is still being prefilled" in texts(app)
    app.session.timeline.cursor = 0
    assert "No token has been chosen yet" in texts(app.run())
    app.test.button(key="sampling_first_token").click()
    app.run()
    assert (app.session.timeline.cursor, len(current(app).steps)) == (3, 3), "to the step that ends the prompt"


def test_an_address_whose_run_is_not_saved_is_said_to_be_that(open_app: Callable[..., App]) -> None:
    app = open_app(run="r7", step="3").open_first("sampling")
    assert "The run of this address is not among the saved ones" in texts(app)
    assert texts(app.run()).count("Step 1: after") == 1


def test_the_greedy_margin_is_that_of_the_token_that_greedy_takes(app: App) -> None:
    prompt = "One, two, three, one, two, three, one, two,"
    app.session.new_run(prompt, SamplingParams(temperature=0, max_new_tokens=4), chat=False, one_pass=True)
    sampling(app, step=1, view="What if")
    field(app, "repetition_penalty").set_value(5.0)
    app.run()
    run = current(app)
    prompt_ids = run.seq.token_ids[: run.info.num_prompt_tokens]
    params = SamplingParams(temperature=0, repetition_penalty=5.0)
    greedy = sampling_of(run.logits_at(len(prompt_ids) - 1), params, prompt_ids)
    assert greedy.token_id != run.steps[0].token_id
    said = next(line for line in texts(app).splitlines() if "logits ahead of" in line)
    shown = visible(run.describe(greedy.token_id).text)
    assert said.startswith(f"“{shown}” is ")
    assert any("After the penalties" in c.value for c in app.test.caption)


def test_any_token_is_found_by_text_and_id_with_its_reason(app: App) -> None:
    sampling(app, view="Any token")
    app.test.text_input(key="sampling_query").set_value("London")
    app.run()
    found = frame(app)
    assert found["token"].iloc[0] in ("London", "␣London")
    assert found["fell at"].iloc[0] == "Top-p"
    assert "0.95 was reached at rank" in found["why"].iloc[0]
    app.test.text_input(key="sampling_query").set_value("49151")
    app.run()
    assert frame(app)["id"].iloc[0] == 49_151


def test_a_row_that_is_chosen_is_the_token_that_is_forced(app: App) -> None:
    sampling(app, view="Any token")

    def table() -> str:
        return f"sampling_find_rows_{app.test.session_state['sampling_find_table']}"

    first = table()
    assert app.test.button(key="sampling_force").disabled
    chosen = frame(app).iloc[4]
    app.select(table(), rows=[4])
    assert not app.test.button(key="sampling_force").disabled
    assert f"“{chosen['token']}”, id {chosen['id']}" in texts(app)
    app.test.button(key="sampling_force").click()
    app.select(table(), rows=[4])
    assert current(app).info.edit == ForceToken(3, chosen["id"])
    assert current(app).steps[2].token_id == chosen["id"]
    assert "was forced to take" in texts(app)
    assert table() != first, "the fifth row is another token now, so none is chosen"


def test_a_row_of_the_stages_shows_that_stage(app: App) -> None:
    sampling(app)
    assert app.test.markdown[-1].value.startswith("**What does Top-p leave?")
    app.select("sampling_stage_rows", rows=[3])
    assert app.test.markdown[-1].value == "**What does Temperature change? It cuts nothing**"
    app.select("sampling_stage_rows", rows=[0])
    assert app.test.markdown[-1].value == "**What does the model itself say?**"
    app.select("sampling_stage_rows", rows=[8])  # the draw itself: the distribution it is made from
    assert "Softmax" in app.test.markdown[-1].value


def test_draw_again_tosses_the_next_coin_and_leaves_the_run(app: App) -> None:
    sampling(app, view="The draw")
    before = list(current(app).seq.token_ids)
    assert "Coin 3 of seed 0" in texts(app)
    app.test.button(key="sampling_again").click()
    app.run()
    assert "Coin 4 of seed 0" in texts(app)
    assert current(app).seq.token_ids == before
    app.test.button(key="sampling_over").click()
    app.run()
    app.test.button(key="sampling_thousand").click()
    app.run()
    assert len(plots(app)) == 2
    app.test.button(key="sampling_over").click()
    app.run()
    assert len(plots(app)) == 1, "a thousand draws can be put away too"


def test_guesses_are_scored_from_the_run(app: App) -> None:
    sampling(app, view="Predict")
    app.test.text_area(key="sampling_guesses").set_value("The\nzebra\n\n")
    next(b for b in app.test.button if b.label == "Reveal step 4").click()
    app.run()
    assert app.session.timeline.cursor == 4
    scores = frame(app).set_index("guess")
    assert len(scores) == 2
    assert scores.loc["zebra", "survived"] == "no"
    assert "of 2 guesses were taken" in texts(app)


def test_hostile_texts_are_never_markup(app: App) -> None:
    app.session.new_run(HOSTILE, SamplingParams(max_new_tokens=4), chat=False, one_pass=True)
    app.run()
    app.ask(want=1, cursor=1, run=current(app).info.run_id)
    ids = app.session.model.tokenizer.encode("<img src=x>", parse_special=False)  # type: ignore[union-attr]
    app.session.branch(ForceToken(1, ids[0]))
    app.open("sampling")
    for view in VIEWS:
        show(app, view)
        for kind in MARKUP:
            for element in app.test.get(kind):
                assert "img" not in str(element.value), (view, kind)
        for spec in plots(app):
            assert "<img" not in json.dumps(spec)


def test_without_a_model_the_page_says_what_will_stand_here(open_app: Callable[..., App], gate: Any) -> None:
    app = open_app(gate.host).open_first("sampling")
    assert "as soon as the model is loaded" in texts(app)
    assert plots(app) == []
