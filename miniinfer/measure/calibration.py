"""What this machine can do, measured in a few seconds: bytes read a second, and operations a second of a large product.

These are what a torch program gets here at this moment, not what a data sheet says: memory is read by `sum`, the
fastest of the simple ways, over a buffer far larger than the processor's caches; the product goes through the same
`Linear` as the model's weights, with so many rows that arithmetic and not memory is the limit.
"""

from __future__ import annotations

import math
import os
import platform
import statistics
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import torch

from miniinfer.config import shown
from miniinfer.engine.clock import DeviceClock
from miniinfer.engine.linear import Linear
from miniinfer.engine.packed import GROUP, Blocks, Int4Linear
from miniinfer.engine.torch_threads import usual_threads
from miniinfer.errors import MiniInferError
from miniinfer.measure.progress import Measurement
from miniinfer.measure.records import Calibration, Machine
from miniinfer.measure.workload import rounds_of

BUFFER_BYTES = 256 * 2**20
SIDE = 1024  # rows and inputs of the product; it has twice as many outputs
PACKED = "packed"  # float32 rows times 4-bit blocks
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
MOST_SPREAD = 1.0  # (p75 - p25) / median
BANDWIDTH_LIMITS = (1e8, 1e14)  # bytes a second: a slow SD card; ten times the fastest memory there is
RATE_LIMITS = (1e7, 1e17)  # operations a second


class CalibrationError(MiniInferError):
    """A calibration that makes no sense; nothing of it is kept."""


def machine_of(device: torch.device) -> Machine:
    """The facts that a calibration is valid for."""
    named = torch.cuda.get_device_name(device) if device.type == "cuda" else _processor()
    return Machine(str(device), named, os.cpu_count() or 1, usual_threads(), torch.__version__)


@cache
def _processor() -> str:
    """The processor's name where the system tells it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def calibrate(
    device: torch.device, *, rounds: int = 15, warm_up: int = 3, buffer_bytes: int = BUFFER_BYTES, side: int = SIDE
) -> Measurement[Calibration]:
    """Bandwidth, and the rate of each dtype, in the same rounds. Raises CalibrationError for figures that cannot be."""
    clock = DeviceClock(device)
    buffer = torch.ones(buffer_bytes // 4, device=device)
    jobs: dict[str, Callable[[], object]] = {"read": buffer.sum}
    for name, dtype in DTYPES.items():
        matrix = Linear(torch.ones(2 * side, side, dtype=dtype, device=device))
        rows = torch.ones(side, side, dtype=dtype, device=device)
        jobs[name] = lambda matrix=matrix, rows=rows: matrix(rows)  # type: ignore[misc]
    if device.type == "cpu":
        blocks = Blocks(*(torch.ones(2 * side, size) for size in (side, side // GROUP, side // GROUP)))
        packed, wide = Int4Linear(blocks), torch.ones(side, side)
        jobs[PACKED] = lambda: packed(wide)
    taken = yield from rounds_of(
        {name: lambda job=job: clock.time(job) for name, job in jobs.items()},  # type: ignore[misc]
        rounds=rounds, warm_up=warm_up, text="calibrating",
    )  # fmt: skip
    return calibration_of(taken, machine_of(device), buffer.nbytes, 4 * side**3, warm_up)


def calibration_of(
    taken: dict[str, list[float]], machine: Machine, buffer_bytes: int, operations: int, warm_up: int
) -> Calibration:
    """From milliseconds: "read" of so many bytes, each dtype of so many operations. Raises CalibrationError."""
    middles = {name: checked_median(name, values) for name, values in taken.items()}
    bandwidth = buffer_bytes / middles["read"] * 1000
    rates = {name: operations / ms * 1000 for name, ms in middles.items() if name != "read"}
    found = Calibration(
        machine, bandwidth, rates, {name: _spread(values) for name, values in taken.items()},
        len(taken["read"]), warm_up, buffer_bytes,
    )  # fmt: skip
    check_calibration(found)
    return found


def checked_median(name: str, values: Sequence[float]) -> float:
    """The median of milliseconds that can be times. Raises CalibrationError."""
    if not values or not all(math.isfinite(v) and v > 0 for v in values):
        raise CalibrationError(f"The clock gave times for {name!r} that cannot be; calibrate again.")
    if (spread := _spread(values)) > MOST_SPREAD:
        raise CalibrationError(
            f"The times for {name!r} differ too much from round to round (half of them by {spread:.0%} of their "
            "median): the machine is busy. Calibrate again when it is quieter."
        )
    return statistics.median(values)


def check_calibration(found: Calibration) -> None:
    """Raises CalibrationError unless every figure is one that a machine could have."""
    figures = {"bandwidth": (found.bytes_per_second, BANDWIDTH_LIMITS)}
    figures |= {f"{name} rate": (rate, RATE_LIMITS) for name, rate in found.operations_per_second.items()}
    if len(figures) == 1:
        raise CalibrationError("This calibration has no arithmetic rate; calibrate again.")
    for name, (value, (least, most)) in figures.items():
        if not (isinstance(value, int | float) and least <= value <= most):  # NaN is not between them either
            raise CalibrationError(f"A {name} of {shown(value)} a second cannot be; calibrate again.")


def _spread(values: Sequence[float]) -> float:
    if len(values) < 4:
        return (max(values) - min(values)) / statistics.median(values)
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / middle
