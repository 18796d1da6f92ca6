"""What the page Cost measures on request, beside the run and without touching it."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from miniinfer.config import SamplingParams
from miniinfer.engine.backend import TORCH, backend_of
from miniinfer.measure import stage_times
from miniinfer.measure.backends import measure_backends
from miniinfer.measure.cache_off import measure_cache_off
from miniinfer.measure.calibration import CalibrationError
from miniinfer.measure.precision import measure_precision
from miniinfer.measure.progress import Progress, run_through
from miniinfer.models.loader import LoadedModel
from miniinfer.ui.cost.look import NOTICE, CostLook, decode_length
from miniinfer.ui.cost.precision import dtypes_for
from tests.engine.tiny import tiny_model
from tests.measure.helpers import IDS, comparison
from tests.ui.app_test import App
from tests.ui.cost.page import cost, endless, finish, frame, give, plots, press, run_of, show, state, texts


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


def test_a_run_by_graph_is_measured_beside_torch(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIINFER_NATIVE", "0")
    quick = partial(measure_backends, rounds=4, warm_up=1, buffer_bytes=2**22)
    monkeypatch.setattr("miniinfer.measure.backends.measure_backends", quick)
    app.session.backend = "graph"
    app.session.new_run("Hello there", SamplingParams(), chat=False, one_pass=True)
    cost(app, "Backends", step=2)
    assert run_of(app).info.backend == "graph"
    assert "graph: The torch program, whose decode steps use the same memory again" in texts(app)
    assert app.test.button(key="cost_measure_backends").label == "Measure torch and graph in turn"
    finish(press(app, "cost_measure_backends"))
    assert state(app, NOTICE) is None
    table = frame(app).set_index("stage")
    assert table["graph ms"].drop("step").sum() == pytest.approx(table.loc["step", "graph ms"])
    assert "In graph and torch the same token was taken in all 5 steps" in texts(app)


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
