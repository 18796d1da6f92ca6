"""Measurements of the tiny model, and records made by hand."""

from __future__ import annotations

import dataclasses

from miniinfer.measure.records import (
    BackendComparison,
    BackendRun,
    Calibration,
    Machine,
    StageCost,
    StageTime,
    Stats,
    StepTimes,
)

IDS = [5, 17, 42, 3, 66, 8, 21]
MACHINE = Machine("cpu", "a processor", 2, 2, "2.0")


def calibration(bytes_per_second: float = 1e10, rate: float = 1e11, machine: Machine = MACHINE) -> Calibration:
    rates = {"float32": rate, "bfloat16": 2 * rate}
    return Calibration(machine, bytes_per_second, rates, {"read": 0.1, "float32": 0.1, "bfloat16": 0.1}, 15, 3, 2**20)


def stats(median: float) -> Stats:
    return Stats(median, 0.9 * median, 1.2 * median, 5, 1)


def step_times(phase: str = "decode", tokens: int = 1) -> StepTimes:
    """Two stages of a layer, the unembed product and a processor; 10 ms, 1 of them between the stages."""
    times = [("qkv_proj", 0, 3.0), ("mlp_hidden", 0, 4.0), ("unembed", None, 1.5), ("processor_5", None, 0.5)]
    costs = tuple(StageCost(name, layer, 1000, 0, 50, 50, 2000 * tokens) for name, layer, _ in times)
    stages = tuple(StageTime(name, layer, ms) for name, layer, ms in times)
    return StepTimes(phase, tokens, 9, 10.0, stages, costs, stats(10), stats(9.5))  # type: ignore[arg-type]


def comparison() -> BackendComparison:
    """4,400 bytes a step at 1 MB/s are 4.4 ms; 3 of 9 operations, 0.1 ms each, lie between the stages."""
    slow = BackendRun("torch", step_times(), {"qkv_proj": 4, "unembed": 2}, 3, 1.0, 6, 0.0)
    quick = dataclasses.replace(slow, backend="native", operations={"unembed": 1}, between=0, ratio=2.5)
    return BackendComparison("float32", (slow, quick), 1000, stats(1.0), Stats(0.1, 0.09, 0.2, 5, 1))
