"""Settings that are tried on the page Sampling: fields, presets, the order of the stages, and runs made with them."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from miniinfer.config import PROCESSOR_NAMES, SamplingParams
from miniinfer.engine.sampler import coin
from miniinfer.trace.run import ChangeParams
from miniinfer.ui.presets import PRESETS
from miniinfer.ui.sampling.settings import complaint
from tests.ui.app_test import App
from tests.ui.sampling.page import current, field, frame, sampling, show, texts

VIEWS = ["Stages", "Any token", "Order", "The draw", "What if", "Branches", "Side by side", "Predict"]


def test_settings_are_tried_at_once_and_the_run_is_unharmed(app: App) -> None:
    sampling(app)
    before = list(current(app).seq.token_ids)
    field(app, "temperature").set_value(0.0)
    app.run()
    assert "What if: with the settings at the left, 1 could be drawn" in texts(app)
    assert frame(app)["setting"].tolist()[3] == "0 = greedy"
    assert current(app).seq.token_ids == before
    assert len(app.session.timeline) == 1
    app.test.button(key="sampling_reset").click()
    app.run()
    assert "What if" not in texts(app)
    assert field(app, "temperature").value == 0.8


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("temperature", -0.5, "temperature must be 0 (greedy) or more"), ("top_p", 0.0, "top_p must be above 0"),
        ("top_p", 1.5, "top_p must be above 0"), ("min_p", 1.0, "min_p must be at least 0 and below 1"),
        ("repetition_penalty", 0.0, "repetition_penalty must be above 0"), ("seed", "-1", "seed must be"),
        ("seed", "1e3", "seed must be"), ("seed", "", "seed must be"), ("seed", "18446744073709551616", "seed must be"),
        ("top_k", -1, "top_k must be a whole number"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_used_is_a_sentence_at_its_field(
    app: App, name: str, value: float | str, sentence: str
) -> None:
    sampling(app)
    before = frame(app)
    field(app, name).set_value(value)
    app.run()
    assert sentence in texts(app)
    pd.testing.assert_frame_equal(frame(app), before)
    assert len(app.session.timeline) == 1
    assert app.test.button(key="sampling_use").disabled
    assert app.test.button(key="sampling_new_run").disabled, "its settings would not be those that stand in the fields"
    app.test.button(key="sampling_reset").click()
    app.run()
    assert sentence not in texts(app), "what was typed can be taken back although no setting was changed by it"


def test_a_seed_above_what_a_browser_counts_to_is_the_one_that_is_used(app: App) -> None:
    sampling(app)
    field(app, "seed").set_value(str(2**64 - 1))
    app.run()
    assert frame(app)["setting"].iloc[-1] == f"coin {coin(2**64 - 1, 2):.4f}"
    app.session.new_run("Hi", SamplingParams(seed=2**64 - 1), chat=False, one_pass=True)
    sampling(app, step=2)
    assert field(app, "seed").value == str(2**64 - 1)
    assert "What if" not in texts(app)


@pytest.mark.parametrize(
    "extreme",
    [
        {"temperature": 0.0, "top_k": 1}, {"temperature": 1e-30, "min_p": 0.999}, {"temperature": 1e308, "top_p": 0.5},
        {"repetition_penalty": 1e308}, {"presence_penalty": 1e308, "frequency_penalty": 1e308},
        {"presence_penalty": -1e38}, {"presence_penalty": -1e308}, {"order": ()},
    ],
    ids=str,
)  # fmt: skip
def test_no_extreme_setting_breaks_a_view(app: App, extreme: dict[str, Any]) -> None:
    sampling(app, step=4)
    for name, value in extreme.items():
        if name == "order":
            for stage in PROCESSOR_NAMES:
                app.test.checkbox(key=f"sampling_{stage}_on").uncheck()
        else:
            field(app, name).set_value(value)
    app.run()
    assert "What if: with the settings at the left" in texts(app) or "so no token can be drawn" in texts(app)
    for view in VIEWS:
        show(app, view)  # App fails on any exception
    assert len(current(app).steps) == 4


def test_a_value_that_is_no_number_is_a_sentence_too() -> None:
    assert complaint("temperature", math.nan) == "temperature must be a finite number, not nan."
    assert complaint("top_p", None) == "A number is needed here."
    assert complaint("top_p", 1.0) is None


def test_top_k_above_the_vocabulary_is_a_note(app: App) -> None:
    sampling(app)
    field(app, "top_k").set_value(60_000)
    app.run()
    assert any("Above the vocabulary of 49,152" in c.value for c in app.test.caption)


def test_the_order_can_be_named_reordered_and_switched_off_and_the_run_then_uses_it(app: App) -> None:
    sampling(app)
    app.test.button(key="sampling_temperature_down").click()
    app.run()
    app.test.checkbox(key="sampling_min_p_on").uncheck()
    app.run()
    assert frame(app)["stage"].tolist()[3:6] == ["Top-k", "Temperature", "Top-p"]
    assert "Min-p" not in frame(app)["stage"].tolist()
    app.test.button(key="sampling_use").click()
    app.run()
    branch = current(app)
    assert branch.info.params.order == ("repetition", "presence_frequency", "top_k", "temperature", "top_p")
    assert isinstance(branch.info.edit, ChangeParams)
    assert branch.step()
    assert app.session.timeline.cursor == 3
    assert "What if" not in texts(app)


def test_a_preset_fills_the_fields(app: App) -> None:
    sampling(app)
    app.test.selectbox(key="sampling_preset").select("Bold, rare tokens cut before")
    app.run()
    assert (field(app, "temperature").value, field(app, "top_p").value) == (1.5, 0.9)
    assert frame(app)["stage"].iloc[-3] == "Temperature"


def test_the_preset_in_its_box_is_the_one_that_the_settings_are(app: App) -> None:
    """A box that kept its choice after "Back to the run's own" could not be set to the same one again."""
    sampling(app)

    def named() -> str | None:
        number = app.test.selectbox(key="sampling_preset").value
        return None if number is None else PRESETS[number].title

    assert named() == "The app's own start"
    app.test.selectbox(key="sampling_preset").select("Nearly at random")
    app.run()
    assert (named(), field(app, "temperature").value) == ("Nearly at random", 2.0)
    field(app, "temperature").set_value(1.9)
    app.run()
    assert named() is None
    app.test.button(key="sampling_reset").click()
    app.run()
    assert named() == "The app's own start"


def test_a_stage_that_is_switched_off_acts_in_neither_order(app: App) -> None:
    sampling(app, view="Order")
    app.test.checkbox(key="sampling_top_p_on").uncheck()
    app.run()
    assert [m.value for m in app.test.metric] == ["49,152", "0", "0"]
    assert not any("Top-p" in c.value for c in app.test.caption)


def test_running_the_prompt_again_keeps_both_runs(app: App) -> None:
    sampling(app)
    field(app, "seed").set_value("5")
    app.run()
    app.test.button(key="sampling_new_run").click()
    app.run()
    assert len(app.session.timeline) == 2
    run = current(app)
    assert (run.info.params.seed, run.info.parent, app.session.timeline.cursor) == (5, None, 3)


def test_what_is_tried_stays_from_step_to_step_and_page_to_page(app: App) -> None:
    sampling(app)
    field(app, "top_k").set_value(7)
    app.run()
    app.ask("transport", run=current(app).info.run_id, cursor=2, full=True)
    assert field(app, "top_k").value == 7
    app.open("workspace").open("sampling")
    assert field(app, "top_k").value == 7
    assert texts(app).startswith("Step 2: after")
