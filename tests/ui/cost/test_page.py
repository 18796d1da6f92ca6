"""The cost page, run in process: nothing is measured before a button says so, and then the run is not touched."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from miniinfer.figures.cost.words import ms
from miniinfer.measure.cache_off import measure_cache_off
from miniinfer.measure.curve import measure_curve
from miniinfer.measure.precision import measure_precision
from miniinfer.measure.progress import run_through
from miniinfer.ui.cost.look import TASK
from miniinfer.ui.cost.page import VIEWS
from miniinfer.ui.cost.predict import answer_of
from tests.engine.tiny import tiny_model
from tests.measure.helpers import IDS
from tests.ui.app_test import App
from tests.ui.cost.page import calibrated, cost, frame, give, plots, press, run_of, show, state, texts
from tests.ui.waiting import wait_until


@pytest.mark.parametrize("view", VIEWS)
def test_opening_a_view_measures_nothing_and_says_what_to_do(app: App, view: str, home: Path) -> None:
    engine = app.session._engine
    before = [m.step_ms for m in run_of(app).steps]
    cost(app, view, step=1)
    assert state(app, TASK) is None
    assert [m.step_ms for m in run_of(app).steps] == before
    assert engine is app.session._engine
    assert list(engine.sequences) == ["r1"]  # type: ignore[union-attr]
    assert not any(thread.name == "measurement" for thread in threading.enumerate())
    assert list(home.iterdir()) == []
    held = {"Where time goes": 2, "Backends": 0, "Precision": 0, "Predict": 0}
    assert len(plots(app)) == held.get(view, 1), "what the run holds"
    assert {"Where time goes": "as it was stepped", "Why": "has not been calibrated yet",
            "Per token": "measure at some lengths", "Backends": "what does Python cost?",
            "Cache on / off": "The proof and both times will stand here",
            "Precision": "packed: the file's own 4-bit blocks", "Predict": "Which bar is longer",
            }[view] in texts(app)  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
def test_before_the_first_step_a_view_says_what_the_step_will_cost(app: App, view: str) -> None:
    info = run_of(app).info
    app.session.new_run(info.prompt, info.params, chat=False, one_pass=True)
    cost(app, view, step=0)
    assert app.session.timeline.cursor == len(run_of(app).steps) == 0
    if view in ("Where time goes", "Why"):
        assert "Step 1 sends the whole prompt through the model, 5 tokens, and reads 538 MB" in texts(app)
        press(app, "cost_first_token")
        assert app.session.timeline.cursor == len(run_of(app).steps) == 1
        assert plots(app)


def test_a_run_that_ends_without_a_token_has_a_prefill_and_no_decode_step(app: App) -> None:
    params = dataclasses.replace(run_of(app).info.params, max_new_tokens=0)
    app.session.new_run("Hi", params, chat=False, one_pass=True)
    cost(app, step=1)
    assert "This run ended (length) without an output token" in texts(app)
    assert "No decode step: the run has ended" in texts(app)
    assert len(plots(app)[0]["data"]) == 1
    for view in VIEWS:
        show(app, view)


def test_what_the_run_recorded_stands_there_at_once_for_the_step_at_the_cursor(app: App) -> None:
    cost(app)
    steps = run_of(app).steps
    assert f"Time to first token: {ms(steps[0].step_ms)}" in texts(app)
    assert f"Step 3, decode: {ms(steps[2].step_ms)}" in texts(app)
    assert "Measured, in the run, as it was stepped (CPU): 5 prompt tokens in one pass, median of 2" in texts(app)
    assert "Decode, step 3, the step you are on" in texts(app)
    flame, bars = plots(app)
    assert [sum(icicle["values"]) for icicle in flame["data"]] == pytest.approx(
        [m.step_ms + (m.recording_ms or 0) for m in (steps[0], steps[2])]
    )
    assert sum(sum(bar["y"]) for bar in bars["data"]) == pytest.approx(
        sum(m.step_ms + (m.recording_ms or 0) for m in steps)
    )
    table = frame(app).set_index("stage")
    for phase, meta in (("prefill", steps[0]), ("decode", steps[2])):
        stages = table[f"{phase} ms"].drop(["step", "recording"])
        assert stages.sum() == pytest.approx(meta.step_ms)
        assert stages["qkv_proj"] == pytest.approx(meta.stage_ms["qkv_proj"])
        assert table.loc["recording", f"{phase} ms"] == pytest.approx(meta.recording_ms)
    app.session.timeline.cursor = 1
    app.run()
    assert "Prefill, step 1, the step you are on" in texts(app)
    assert "Decode, step 3**" in texts(app)


def test_times_of_a_run_that_came_back_are_called_recorded(app: App) -> None:
    cost(app)
    run = run_of(app)
    run.info = dataclasses.replace(run.info, resumed=2)
    app.run()
    assert "Measured, in the run" in texts(app), "step 3 was made after it came back"
    app.session.timeline.cursor = 2
    app.run()
    assert "Recorded, in the run" in texts(app)
    assert "Steps 1 to 2 came back from a saved run" in texts(app)


def test_views_of_what_was_measured(app: App, home: Path) -> None:
    calibrated(home)
    cost(app, "Cache on / off", step=1)
    tiny = tiny_model()
    give(app, "cache_off", run_through(measure_cache_off(tiny, IDS, prompt=7, tokens=6, lengths=(8, 40), rounds=2)))
    app.run()
    assert "The same 6 greedy tokens both ways" in texts(app)
    assert "At 8 tokens a step without the cache takes" in texts(app)
    assert frame(app)["computed without"].tolist() == [8, 40]
    assert len(plots(app)) == 2
    give(app, "curve", run_through(measure_curve(tiny, IDS, (16, 40), rounds=3, warm_up=1)))
    show(app, "Per token")
    assert frame(app)["ms"].notna().sum() == 2
    assert frame(app)["estimated ms"].notna().all()
    assert len(plots(app)) == 2
    models = {"float32": tiny, "bfloat16": tiny_model(seed=3)}
    params = run_of(app).info.params
    give(app, "precision", run_through(measure_precision(models, IDS, params, tokens=6)))
    show(app, "Precision")
    assert "The text first differs at output token 1" in app.texts("cost_verdict")[0]
    assert "At temperature 0.8 the same coin falls in each" in texts(app)
    assert app.test.dataframe[1].value["same"].tolist()[0] == "no"


def test_tokens_are_never_markup(app: App) -> None:
    cost(app, "Precision", step=1)
    models = {"float32": tiny_model(), "bfloat16": tiny_model(seed=3)}
    found = run_through(measure_precision(models, IDS, run_of(app).info.params, tokens=2))
    ids = app.session.model.tokenizer.encode("<b>", parse_special=False)  # type: ignore[union-attr]
    runs = tuple(
        dataclasses.replace(r, tokens=tuple(dataclasses.replace(t, token_id=ids[0], probs={ids[0]: 0.5})
                                            for t in r.tokens)) for r in found.runs
    )  # fmt: skip
    give(app, "precision", dataclasses.replace(found, runs=runs))
    app.run()
    assert app.session.model is not None
    sign = app.session.model.token_bytes[ids[0]].decode()
    assert sign in app.texts("cost_verdict")[0]
    assert not any(sign in text for text in app.marked_up if "style" not in text)


def test_a_guess_is_answered_by_the_run_itself(app: App) -> None:
    cost(app, "Predict", step=1)
    assert answer_of(run_of(app), 8) is None
    app.test.radio(key="cost_longer").set_value("decode")
    app.test.number_input(key="cost_factor").set_value(3.0)
    next(b for b in app.test.button if b.label == "Reveal").click()
    app.run()
    steps = run_of(app).steps
    assert len(steps) == 9
    found = answer_of(run_of(app), 8)
    assert found is not None
    assert found.prefill_ms == steps[0].step_ms
    assert found.decode_ms == pytest.approx(sum(m.step_ms for m in steps[1:]))
    assert found.factor == pytest.approx(found.decode_ms / 8 / (found.prefill_ms / 5))
    verdict = "Yes" if found.longer == "decode" else "No"
    assert f"**{verdict}: the {found.longer} bar is longer" in texts(app)
    assert "You said decode, and 3 times" in texts(app)
    assert len(frame(app)) == 9
    app.session.step_to(20, 60)
    app.run()
    assert "decode, 8 tokens" in plots(app)[0]["data"][0]["y"], "what was asked about stays what is answered"
    press(app, "cost_guess_again")
    assert "the 19 decode steps after it" in texts(app)


def test_a_guess_about_a_prompt_in_parts_waits_for_its_end(app: App) -> None:
    """More prefill steps than the decode steps that are asked about."""
    info = run_of(app).info
    params = dataclasses.replace(info.params, max_new_tokens=3)
    app.session.new_run("one two three four five six seven", params, chat=False, one_pass=False)
    cost(app, "Predict", step=1)
    assert "the 2 decode steps after it" in texts(app), "no more than the run can have"
    next(b for b in app.test.button if b.label == "Reveal").click()
    app.run()
    run = run_of(app)
    prefill = [m for m in run.steps if m.phase == "prefill"]
    assert len(prefill) > 3
    found = answer_of(run, 2)
    assert found is not None
    assert found.decodes == tuple(m.step_ms for m in run.steps[-2:])
    assert found.prefill_ms == pytest.approx(sum(m.step_ms for m in run.steps[:-2]))
    assert f"the {found.longer} bar is longer" in texts(app)


def test_without_a_model_the_page_says_what_will_stand_here(open_app: Callable[..., App], gate: Any) -> None:
    app = open_app(gate.host).open_first("cost")
    assert "A recorded run cannot be measured" in texts(app)
    assert "Recorded, in the run, as it was stepped (CPU): 5 prompt tokens in one pass" in texts(app)
    steps = app.session.timeline.current.steps  # type: ignore[union-attr]
    assert sum(sum(bar["y"]) for bar in plots(app)[1]["data"]) == pytest.approx(sum(m.step_ms for m in steps))
    wait_until(lambda: not any(thread.name == "measurement" for thread in threading.enumerate()))
