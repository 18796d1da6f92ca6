"""The cost page, run in process: nothing is measured before a button says so, and then the run is not touched."""

from __future__ import annotations

import dataclasses
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from miniinfer.engine.backend import TORCH, backend_of
from miniinfer.figures.cost.words import ms
from miniinfer.measure import stage_times
from miniinfer.measure.backends import measure_backends
from miniinfer.measure.cache_off import measure_cache_off
from miniinfer.measure.calibration import CalibrationError, machine_of
from miniinfer.measure.calibration_file import load_calibration, save_calibration
from miniinfer.measure.curve import measure_curve
from miniinfer.measure.precision import measure_precision
from miniinfer.measure.progress import Progress, run_through
from miniinfer.models.loader import LoadedModel
from miniinfer.ui.cost.look import NOTICE, TASK, CostLook, decode_length
from miniinfer.ui.cost.page import VIEWS
from miniinfer.ui.cost.precision import dtypes_for
from miniinfer.ui.cost.predict import answer_of
from tests.engine.tiny import tiny_model
from tests.measure.helpers import IDS, calibration, comparison, step_times
from tests.ui.app_test import App
from tests.ui.cost.page import cost, endless, finish, frame, give, plots, press, run_of, show, state, texts
from tests.ui.waiting import wait_until

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: object) -> Path:
    """A data folder without a calibration; the model is loaded already."""
    monkeypatch.setenv("MINIINFER_HOME", str(tmp_path))
    return tmp_path


def calibrated(home: Path) -> None:
    save_calibration(calibration(machine=machine_of(CPU)), home)


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


def test_steps_are_measured_beside_the_run_and_add_up(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("measure_prefill", "measure_decode"):
        few = partial(_with_rounds, getattr(stage_times, name))
        monkeypatch.setattr(stage_times, name, few)
    cost(app)
    run, ids = run_of(app), list(run_of(app).seq.token_ids)
    finish(press(app, "cost_measure_times"))
    assert state(app, NOTICE) is None
    assert run.seq.token_ids == ids
    assert len(run.steps) == 3
    assert list(app.session._engine.sequences) == ["r1"]  # type: ignore[union-attr]
    (flame,) = plots(app)
    table = frame(app).set_index("stage")
    for phase in ("prefill", "decode"):
        parts, whole = table[f"{phase} ms"].drop("step"), table.loc["step", f"{phase} ms"]
        assert parts.sum() == pytest.approx(whole)
        assert table.loc["between the stages", f"of {phase}"] >= 0
    assert "Top-p" in table.index, "a processor is called by its name"
    assert sum(flame["data"][1]["values"]) == pytest.approx(table.loc["step", "decode ms"])
    app.test.session_state["cost_nesting"] = "layers, then stages"
    app.run()
    assert sum(plots(app)[0]["data"][1]["values"]) == pytest.approx(table.loc["step", "decode ms"])
    assert "Measure layer by layer again" in [b.label for b in app.test.button]
    app.test.session_state["cost_way_r1"] = "as it was stepped"
    app.run()
    assert len(plots(app)) == 2


def _with_rounds(measure: Callable[..., Any], *args: Any, rounds: int = 0) -> Any:
    """The same in four rounds: enough to add up."""
    return measure(*args, rounds=4)


def test_a_roofline_has_its_points_from_the_run_and_its_roofs_from_a_calibration(app: App, home: Path) -> None:
    cost(app, "Why")
    (plot,) = plots(app)
    assert [trace["name"] for trace in plot["data"]] == ["prefill", "decode"], "of the run, without roofs"
    own = frame(app)
    assert "limited by" not in own
    steps = run_of(app).steps
    unembed = own[(own.phase == "decode") & (own.stage == "unembed")].iloc[0]
    assert unembed["ms"] == pytest.approx(steps[2].stage_ms["unembed"])
    assert unembed["operations"] == 2 * run_of(app).info.model.hidden_size * run_of(app).info.model.vocab_size
    give(app, "times", (step_times("prefill", 5), step_times()))
    calibrated(home)
    app.run()
    (plot,) = plots(app)
    assert [trace["name"] for trace in plot["data"]] == [
        "memory, 10.0 GB/s", "arithmetic, 100 GFLOP/s", "prefill", "decode",
    ]  # fmt: skip
    table = frame(app)
    assert len(table) == 8
    decode = table[(table.phase == "decode") & (table.stage == "qkv_proj")].iloc[0]
    assert (decode["bytes"], decode["operations"], decode["operations per byte"]) == (1100, 2000, 2000 / 1100)
    assert decode["limited by"] == "memory"
    assert decode["least ms"] == pytest.approx(1100 / 1e10 * 1000)
    assert "Not arithmetic, moving bytes" in texts(app)


def test_the_calibrate_button_keeps_what_it_found(app: App, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = calibration(machine=machine_of(CPU))

    def quick(device: torch.device) -> Iterator[Progress]:
        yield Progress("calibrating", 0.5)
        return found

    monkeypatch.setattr("miniinfer.measure.calibration.calibrate", quick)
    cost(app, "Why", step=1)
    finish(press(app, "cost_calibrate"))
    assert load_calibration(home, CPU) == found
    assert "memory 10.0 GB/s" in texts(app)


def test_a_calibration_that_is_nonsense_is_a_sentence_and_nothing_is_kept(
    app: App, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(device: torch.device) -> Iterator[Progress]:
        yield Progress("calibrating", 0.5)
        raise CalibrationError("The machine is busy. Calibrate again.")

    monkeypatch.setattr("miniinfer.measure.calibration.calibrate", busy)
    cost(app, "Why", step=1)
    finish(press(app, "cost_calibrate"))
    assert app.texts("cost_notice") == ["The machine is busy. Calibrate again."]
    assert list(home.iterdir()) == []


def test_a_stale_calibration_is_refused_on_the_page(app: App, home: Path) -> None:
    machine = dataclasses.replace(machine_of(CPU), threads=77)
    save_calibration(calibration(machine=machine), home)
    cost(app, "Why", step=1)
    assert "The kept calibration is stale (threads 77 then" in texts(app)


def test_a_running_measurement_shows_its_progress_and_can_be_cancelled(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("miniinfer.measure.curve.measure_curve", lambda model, ids: endless())
    cost(app, "Per token", step=1)
    press(app, "cost_measure_curve")
    assert app.test.button(key="cost_measure_curve").disabled
    assert app.polls
    press(app, "cost_cancel")
    finish(app)
    assert app.texts("cost_notice") == ["The measurement was cancelled."]
    assert not app.test.button(key="cost_measure_curve").disabled
    assert not app.polls


def test_another_precision_is_loaded_on_request_and_forgotten(
    app: App, model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: dict[str, weakref.ref[LoadedModel]] = {}

    def load(source: Path, *, device: str, dtype: str) -> LoadedModel:
        assert (source, device) == (model.source, "cpu")
        twin = dataclasses.replace(model)
        loaded[dtype] = weakref.ref(twin)
        return twin

    monkeypatch.setattr("miniinfer.models.loader.load_model", load)
    monkeypatch.setattr("miniinfer.measure.precision.measure_precision", partial(measure_precision, tokens=6))
    cost(app, "Precision", step=1)
    finish(press(app, "cost_measure_precision"))
    assert state(app, NOTICE) is None
    assert "All 6 output tokens are the same in float32, bfloat16 and packed" in texts(app)
    assert len(plots(app)) == 2
    assert frame(app)["precision"].tolist() == ["float32", "bfloat16", "packed"]
    assert frame(app)["logit difference"].tolist() == frame(app)["KL, nats"].tolist() == [0, 0, 0]
    gc.collect()
    assert set(loaded) == {"bfloat16", "packed"}
    assert all(reference() is None for reference in loaded.values())


def test_packed_is_not_offered_to_a_model_that_has_no_blocks(
    app: App, model: LoadedModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    look = CostLook(app.session, run_of(app))
    assert dtypes_for(look) == ("float32", "bfloat16", "packed")
    monkeypatch.setattr(CostLook, "model", dataclasses.replace(model, source=tmp_path))
    assert dtypes_for(look) == ("float32", "bfloat16")


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


def test_what_is_measured_is_computed_by_the_backend_of_the_run(app: App, model: LoadedModel) -> None:
    """A session may have chosen torch although its model would take the core."""
    cost(app, step=1)
    look = CostLook(app.session, run_of(app))

    class Core:
        name = "native"

    kept = model.choose_backend
    object.__setattr__(model, "choose_backend", lambda weights: Core())
    try:
        assert backend_of(look.model) is run_of(app).engine.backend is TORCH
    finally:
        object.__setattr__(model, "choose_backend", kept)


def test_backends_are_measured_in_turn_or_torch_alone(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIINFER_NATIVE", "0")
    quick = partial(measure_backends, rounds=4, warm_up=1, buffer_bytes=2**22)
    monkeypatch.setattr("miniinfer.measure.backends.measure_backends", quick)
    cost(app, "Backends", step=2)
    assert "The compiled core is turned off by MINIINFER_NATIVE." in texts(app)
    assert app.test.button(key="cost_measure_backends").label == "Measure torch alone"
    steps = [m.step_ms for m in run_of(app).steps]
    finish(press(app, "cost_measure_backends"))
    assert state(app, NOTICE) is None
    assert [m.step_ms for m in run_of(app).steps] == steps
    assert "A decode step with 6 in the cache takes" in texts(app), "the run's newest position"
    assert "turned off" in texts(app)
    table = frame(app).set_index("stage")
    assert "ratio" not in table
    assert table["torch ms"].drop("step").sum() == pytest.approx(table.loc["step", "torch ms"])
    assert table.loc["attn_scores", "torch operations"] > 30
    give(app, "backends", comparison())
    app.run()
    assert "torch takes 2.5 times as long" in texts(app)
    assert [trace["name"] for trace in plots(app)[1]["data"]] == ["torch", "native", "moving its bytes (estimated)"]
    assert len(plots(app)) == 2


def test_no_step_of_a_measurement_is_longer_than_one_of_a_run(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a server for many a step has a limit; a prompt beyond it would hold everybody up, round after round."""
    asked: dict[str, Any] = {}

    def noted(name: str) -> Callable[..., Iterator[Progress]]:
        def measure(model: Any, ids: Any, *args: Any, **options: Any) -> Iterator[Progress]:
            asked[name] = len(ids), options
            yield Progress("noted", 1.0)
            raise CalibrationError("What was asked for is noted.")

        return measure

    for place, name in (("stage_times", "prefill"), ("cache_off", "cache_off")):
        monkeypatch.setattr(f"miniinfer.measure.{place}.measure_{name}", noted(name))
    monkeypatch.setattr(CostLook, "most_tokens", 40)
    info = run_of(app).info
    app.session.new_run("a b c d e f g h i j k l m n " * 4, info.params, chat=False, one_pass=True)
    cost(app, step=1)
    finish(press(app, "cost_measure_times"))
    assert asked["prefill"][0] == 40 < run_of(app).info.num_prompt_tokens
    show(app, "Cache on / off")
    finish(press(app, "cost_measure_cache_off"))
    assert asked["cache_off"][1] == {"prompt": 40 - 16, "lengths": [8, 16, 32]}


def test_a_run_at_the_end_of_its_context_is_measured_before_it(app: App) -> None:
    cost(app, step=1)
    look, run = CostLook(app.session, run_of(app)), run_of(app)
    run.seq.num_computed_tokens, kept = 8191, run.seq.num_computed_tokens
    try:
        assert decode_length(look) == 8192 - 32
    finally:
        run.seq.num_computed_tokens = kept
    assert decode_length(look) == 6


def test_a_result_belongs_to_its_run(app: App) -> None:
    cost(app, "Cache on / off", step=1)
    measured = measure_cache_off(tiny_model(), IDS, prompt=7, tokens=2, lengths=(8,), rounds=1)
    give(app, "cache_off", run_through(measured))
    app.run()
    assert "greedy tokens both ways, after" in texts(app)
    app.session.new_run("Another", run_of(app).info.params, chat=False, one_pass=True)
    app.run()
    assert "will stand here" in texts(app)


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
