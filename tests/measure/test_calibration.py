"""The calibration: sane figures are kept, nonsense is refused with a sentence and nothing is stored."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
import torch

from miniinfer.measure.calibration import (
    CalibrationError,
    calibrate,
    calibration_of,
    check_calibration,
    checked_median,
    machine_of,
)
from miniinfer.measure.calibration_file import load_calibration, save_calibration
from miniinfer.measure.progress import run_through
from miniinfer.measure.records import Calibration
from tests.measure.helpers import MACHINE, calibration

CPU = torch.device("cpu")


def here(**changes: object) -> Calibration:
    """One that was measured on this machine."""
    return dataclasses.replace(calibration(machine=machine_of(CPU)), **changes)  # type: ignore[arg-type]


def test_rates_are_bytes_and_operations_over_the_median_time() -> None:
    taken = {"read": [10.0, 10.0, 12.0, 9.0], "float32": [50.0] * 4, "bfloat16": [25.0] * 4}
    found = calibration_of(taken, MACHINE, buffer_bytes=10**8, operations=10**10, warm_up=3)
    assert found.bytes_per_second == pytest.approx(1e10)
    assert found.operations_per_second == pytest.approx({"float32": 2e11, "bfloat16": 4e11})
    assert found.seconds(10**10) == pytest.approx(1.0)
    assert found.spread["float32"] == 0


def test_a_small_calibration_of_this_machine_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    monkeypatch.setattr("miniinfer.measure.calibration.MOST_SPREAD", math.inf)  # a busy machine is another test
    found = run_through(calibrate(CPU, rounds=4, warm_up=1, buffer_bytes=2**22, side=128), steps.append)
    assert found.machine == machine_of(CPU)
    assert set(found.operations_per_second) == {"float32", "bfloat16", "packed"}
    assert len(steps) == 4 * 5
    assert [s.share for s in steps] == sorted(s.share for s in steps)


@pytest.mark.parametrize("values", [[], [0.0], [-1.0, 2.0], [math.nan, 1.0, 1.0], [math.inf] * 3])
def test_times_that_cannot_be_are_refused(values: list[float]) -> None:
    with pytest.raises(CalibrationError, match="calibrate again"):
        checked_median("read", values)


def test_an_absurd_spread_is_refused_and_says_why() -> None:
    with pytest.raises(CalibrationError, match="busy"):
        checked_median("read", [1, 1, 2, 3, 9, 9, 10, 10])
    assert checked_median("read", [9, 10, 11, 10, 30]) == 10


@pytest.mark.parametrize("nonsense", [0.0, -5.0, math.nan, math.inf, 1.0, 1e18])
@pytest.mark.parametrize("field", ["bytes_per_second", "operations_per_second"])
def test_nonsense_is_not_stored(tmp_path: Path, field: str, nonsense: float) -> None:
    value = nonsense if field == "bytes_per_second" else {"float32": nonsense}
    found = here(**{field: value})
    with pytest.raises(CalibrationError):
        check_calibration(found)
    with pytest.raises(CalibrationError):
        save_calibration(found, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_any_rate_it_is_refused() -> None:
    with pytest.raises(CalibrationError):
        check_calibration(here(operations_per_second={}))


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    assert load_calibration(folder, CPU) is None
    found = here()
    save_calibration(found, folder)
    assert load_calibration(folder, CPU) == found
    assert [p.name for p in folder.iterdir()] == ["calibration-cpu.json"]


@pytest.mark.parametrize("change", [{"threads": 99}, {"torch": "1.0"}, {"processor": "another"}, {"cpus": 512}])
def test_a_stale_one_is_refused_and_says_what_changed(tmp_path: Path, change: dict[str, object]) -> None:
    machine = dataclasses.replace(machine_of(CPU), **change)  # type: ignore[arg-type]
    save_calibration(here(machine=machine), tmp_path)
    with pytest.raises(CalibrationError, match=f"stale .{next(iter(change))}"):
        load_calibration(tmp_path, CPU)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 1}', '{"format": 2}', "null",
                                  pytest.param("[" * 100_000, id="deep")])  # fmt: skip
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "calibration-cpu.json").write_text(text)
    with pytest.raises(CalibrationError, match="damaged"):
        load_calibration(tmp_path, CPU)


def test_a_file_with_nonsense_in_it_is_refused(tmp_path: Path) -> None:
    path = save_calibration(here(), tmp_path)
    kept = json.loads(path.read_text())
    for field, value in (("bytes_per_second", -1), ("bytes_per_second", 10**400), ("bytes_per_second", "fast"),
                         ("operations_per_second", {"float32": None}), ("rounds", "many"), ("rounds", -1)):  # fmt: skip
        path.write_text(json.dumps(kept | {field: value}))
        with pytest.raises(CalibrationError, match=r"cannot be|damaged") as caught:
            load_calibration(tmp_path, CPU)
        assert len(str(caught.value)) < 200
