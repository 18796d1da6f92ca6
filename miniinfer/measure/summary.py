"""Steps told by stage or by part: times, bytes and operations of all layers together, and what bounds them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from miniinfer.measure.groups import BOOKKEEPING, GROUPS, group_of
from miniinfer.measure.records import BackendComparison, BackendRun, Calibration, CountedParts, StepParts


@dataclass(frozen=True)
class StageSum:
    """One kind of stage in a step, all layers together. ms: measured; the rest: computed."""

    stage: str
    group: str
    ms: float
    weight_bytes: int
    kv_bytes: int
    num_bytes: int
    operations: int

    @property
    def intensity(self) -> float:
        """Operations for each byte moved; NaN if it moves none."""
        return self.operations / self.num_bytes if self.num_bytes else math.nan

    @property
    def operations_per_second(self) -> float:
        return self.operations / self.ms * 1000 if self.ms > 0 else math.nan

    @property
    def bytes_per_second(self) -> float:
        return self.num_bytes / self.ms * 1000 if self.ms > 0 else math.nan


@dataclass(frozen=True)
class Bound:
    """What the calibrated machine allows for a stage: the least time, and whether memory or arithmetic sets it."""

    least_ms: float
    by: str  # "memory" or "arithmetic"


def stage_ms(step: StepParts) -> dict[str, float]:
    """Milliseconds of each kind of stage, all layers together, in the order of the program."""
    total: dict[str, float] = {}
    for stage in step.stages:
        total[stage.stage] = total.get(stage.stage, 0.0) + stage.ms
    return total


def by_stage(step: CountedParts) -> tuple[StageSum, ...]:
    """In the order of the program."""
    found = []
    for name, ms in stage_ms(step).items():
        costs = [c for c in step.costs if c.stage == name]
        found.append(
            StageSum(
                name, group_of(name), ms,
                sum(c.weight_bytes for c in costs), sum(c.kv_bytes for c in costs), sum(c.num_bytes for c in costs),
                sum(c.operations for c in costs),
            )
        )
    return tuple(found)


def by_group(stages: Iterable[StageSum]) -> dict[str, float]:
    """Milliseconds of each part of the step, in the order in which they are always told."""
    total = dict.fromkeys(GROUPS, 0.0)
    for stage in stages:
        total[stage.group] += stage.ms
    return total


def bound_of(stage: StageSum, calibration: Calibration, dtype: str) -> Bound | None:
    """None where nothing is moved, or this dtype was not calibrated."""
    rate = calibration.operations_per_second.get(dtype)
    if not stage.num_bytes or rate is None:
        return None
    moving = stage.num_bytes / calibration.bytes_per_second * 1000
    computing = stage.operations / rate * 1000
    return Bound(max(moving, computing), "memory" if moving >= computing else "arithmetic")


def weights_read(step: CountedParts) -> int:
    """Bytes of weights that the step reads, computed."""
    return sum(c.weight_bytes for c in step.costs)


@dataclass(frozen=True)
class StageSplit:
    """Milliseconds of one kind of stage by one backend, cut in three that add up. moving_ms: what its bytes take at the
    bandwidth of the same rounds; asking_ms: its torch operations, each at the time of the smallest one, the least that
    it can be (both estimated, and never more than the stage took); rest_ms: what is left."""

    stage: str
    group: str
    ms: float
    num_bytes: int
    operations: int  # that torch was asked for
    moving_ms: float
    asking_ms: float

    @property
    def rest_ms(self) -> float:
        return self.ms - self.moving_ms - self.asking_ms


def split_of(found: BackendComparison, run: BackendRun) -> tuple[StageSplit, ...]:
    """Every kind of stage, in the order of the program; last what lies between the stages, under the name ""."""
    told = [(s.stage, s.group, s.ms, s.num_bytes, run.operations.get(s.stage, 0)) for s in by_stage(run.step)]
    told.append(("", BOOKKEEPING, max(run.step.gap_ms, 0.0), 0, run.between))
    splits = []
    for stage, group, ms, num_bytes, operations in told:
        moving = min(ms, found.moving_ms(num_bytes))
        asking = min(ms - moving, operations * found.smallest.median_ms)
        splits.append(StageSplit(stage, group, ms, num_bytes, operations, moving, asking))
    return tuple(splits)
