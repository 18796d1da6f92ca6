"""`miniinfer bench`: calibration, then prefill and decode at several lengths, told by stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from miniinfer.config import SamplingParams
from miniinfer.engine.backend import Backend, backend_of
from miniinfer.engine.clock import DeviceClock, allocator_bytes
from miniinfer.engine.weights import ModelLike
from miniinfer.errors import BadInputError
from miniinfer.measure.backends import measure_backends
from miniinfer.measure.calibration import BUFFER_BYTES, CalibrationError, calibrate, machine_of
from miniinfer.measure.progress import Measurement, part
from miniinfer.measure.records import BackendComparison, Calibration, Machine, StepTimes
from miniinfer.measure.stage_times import measure_decode, measure_prefill
from miniinfer.measure.workload import stretched


@dataclass(frozen=True)
class Size:
    """Lengths in tokens (backends: at which they are held against each other), rounds of each, and bytes of the buffer
    that the calibration reads."""

    prefill: tuple[int, ...] = (16, 64, 256, 512)
    decode: tuple[int, ...] = (16, 64, 256, 1024)
    backends: int = 256
    prefill_rounds: int = 8
    decode_rounds: int = 24
    calibration_rounds: int = 15
    buffer_bytes: int = BUFFER_BYTES


FULL = Size()
QUICK = Size((16, 64), (16, 256), 64, prefill_rounds=3, decode_rounds=8, calibration_rounds=6)


@dataclass(frozen=True)
class Bench:
    """machine: what it ran on. clock: how time was taken. calibration: None if it was refused, and why in `notes`.
    backend: what computed all of it. backends: None if there was but one."""

    machine: Machine
    clock: str
    dtype: str
    backend: str
    weight_bytes: int
    kv_bytes_per_token: int
    allocator_bytes: int | None
    calibration: Calibration | None
    prefill: tuple[StepTimes, ...]
    decode: tuple[StepTimes, ...]
    backends: BackendComparison | None
    notes: tuple[str, ...]


def measure_bench(
    model: ModelLike, ids: Sequence[int], params: SamplingParams, size: Size = FULL, backends: Sequence[Backend] = ()
) -> Measurement[Bench]:
    """ids: a text, stretched where it is short. Lengths that the model's context cannot hold are left out. backends: to
    be held against each other, if there are two or more."""
    device, weights = model.weights.device, model.weights
    most = model.config.context_length
    prefills = [n for n in size.prefill if n < most]
    decodes = [n for n in size.decode if n + size.decode_rounds + 3 <= most]
    if not prefills or not decodes:
        raise BadInputError(f"This model's context of {most} tokens is too short for these lengths.")
    notes = [f"{n:,} tokens do not fit into this model's context." for n in (*size.prefill, *size.decode)
             if n not in (*prefills, *decodes)]  # fmt: skip
    calibration: Calibration | None = None
    try:
        calibration = yield from part(
            calibrate(device, rounds=size.calibration_rounds, buffer_bytes=size.buffer_bytes), 0, 0.1
        )
    except CalibrationError as error:
        notes.append(str(error))
    jobs = [("prefill", n) for n in prefills] + [("decode", n) for n in decodes]
    found: dict[str, list[StepTimes]] = {"prefill": [], "decode": []}
    for place, (phase, length) in enumerate(jobs):
        start, stop = (0.1 + 0.7 * i / len(jobs) for i in (place, place + 1))
        if phase == "prefill":
            text = stretched(ids, length)
            job = measure_prefill(model, text, params, rounds=size.prefill_rounds)
        else:
            job = measure_decode(model, ids, length, params, rounds=size.decode_rounds)
        found[phase].append((yield from part(job, start, stop)))
    compared: BackendComparison | None = None
    if len(backends) > 1:
        at = min(size.backends, max(decodes))
        turns = measure_backends(
            model, ids, at, params, backends, rounds=size.decode_rounds, buffer_bytes=size.buffer_bytes
        )
        compared = yield from part(turns, 0.8, 1)
    return Bench(
        machine_of(device), DeviceClock(device).name, weights.precision, backend_of(model).name, weights.nbytes,
        model.config.kv_bytes_per_token(weights.dtype.itemsize), allocator_bytes(device), calibration,
        tuple(found["prefill"]), tuple(found["decode"]), compared, tuple(notes),
    )  # fmt: skip
