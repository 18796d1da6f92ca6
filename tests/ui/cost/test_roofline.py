"""The roofline and its calibration on the page Cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from miniinfer.measure.calibration import CalibrationError, machine_of
from miniinfer.measure.calibration_file import load_calibration, save_calibration
from miniinfer.measure.progress import Progress
from tests.measure.helpers import calibration, step_times
from tests.ui.app_test import App
from tests.ui.cost.page import CPU, calibrated, cost, finish, frame, give, plots, press, run_of, texts


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
