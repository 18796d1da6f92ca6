"""`bench`: figures that make sense, as a table or as one object; the calibration is kept."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from miniinfer.measure import bench, calibration
from miniinfer.measure.bench import Size
from tests.cli.conftest import Run

SMALL = Size((8,), (12,), 12, prefill_rounds=2, decode_rounds=3, calibration_rounds=2, buffer_bytes=2**22)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The smallest bench there is, on a machine that may be busy, with a data folder of its own."""
    monkeypatch.setattr(bench, "QUICK", SMALL)
    monkeypatch.setattr(calibration, "MOST_SPREAD", math.inf)
    monkeypatch.setenv("MINIINFER_HOME", str(tmp_path))
    return tmp_path


def test_one_object_with_steps_stages_and_calibration(command: Run, small: Path) -> None:
    status, out, err = command("bench", "--quick", "--json")
    assert status == 0, err
    assert out.count("\n") == 1
    said: dict[str, Any] = json.loads(out)
    assert (said["model"], said["dtype"], said["quick"]) == ("SmolLM2-135M-Instruct", "float32", True)
    assert (said["backend"], said["backends"]) == ("torch", None)
    assert said["weight_bytes"] == 538_060_032
    assert said["kv_bytes_per_token"] == 46_080
    assert said["allocator_bytes"] is None
    (prefill,), (decode,) = said["prefill"], said["decode"]
    assert (prefill["num_tokens"], decode["context_len"]) == (8, 12)
    for step in (prefill, decode):
        assert step["gap_ms"] + sum(s["ms"] for s in step["by_stage"]) == pytest.approx(step["step_ms"])
        assert len(step["stages"]) == len(step["costs"]) == 30 * 11 + 14
    assert sum(s["weight_bytes"] for s in decode["by_stage"]) == said["weight_bytes"] + 612  # one Q8_0 row of 576
    assert said["calibration"]["bytes_per_second"] > 0
    kept = json.loads((small / "calibration-cpu.json").read_text())
    assert kept["bytes_per_second"] == said["calibration"]["bytes_per_second"]


def test_a_table_that_says_where_its_figures_come_from(command: Run) -> None:
    status, out, err = command("bench", "--quick")
    assert status == 0
    for words in ("GB/s", ": READING WEIGHTS", "mlp_hidden", "between the stages", "Measured", "computed", "estimated"):
        assert words in out
    assert max(map(len, out.splitlines())) < 200
    assert "calibrating" in err, "progress goes to stderr"


def test_a_refused_calibration_leaves_the_rest(
    command: Run, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "MOST_SPREAD", -1.0)
    status, out, _ = command("bench", "--quick")
    assert status == 0
    assert "No calibration" in out
    assert "the machine is busy" in out
    assert "mlp_hidden" in out
    assert not list(small.iterdir())
