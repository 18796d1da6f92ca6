"""The tables that `bench` prints."""

from __future__ import annotations

from collections.abc import Sequence

from miniinfer.cli.output import table
from miniinfer.figures.kv.words import count
from miniinfer.measure.bench import Bench
from miniinfer.measure.groups import GROUPS
from miniinfer.measure.records import BackendComparison, StepTimes
from miniinfer.measure.summary import bound_of, by_group, by_stage, split_of, weights_read


def bench_table(found: Bench, model: str, seconds: float) -> str:
    """Everything in a few aligned blocks; each says whether it was measured, computed or estimated."""
    blocks = [_head(found, model, seconds), _calibration(found), _steps(found), _parts(found)]
    blocks += [_stages(found, step) for step in (found.prefill[-1], found.decode[-1])]
    if found.backends is not None:
        blocks.append(_backends(found.backends))
    return "\n\n".join([*blocks, *found.notes])


def _head(found: Bench, model: str, seconds: float) -> str:
    machine = found.machine
    memory = "" if found.allocator_bytes is None else f", {found.allocator_bytes:,} bytes by the device's allocator"
    return (
        f"{model} in {found.dtype} by {found.backend} on {machine.device} ({machine.processor}, {machine.cpus} CPUs, "
        f"{count(machine.threads, 'thread')}, torch {machine.torch}), {found.clock}, {seconds:.0f} s\n"
        f"weights {found.weight_bytes:,} bytes, KV cache {found.kv_bytes_per_token:,} bytes a token{memory}"
    )


def _calibration(found: Bench) -> str:
    c = found.calibration
    if c is None:
        return "No calibration, so there are no ratios to the machine's limits."
    rates = ", ".join(f"{name} {rate / 1e9:,.0f} GFLOP/s" for name, rate in c.operations_per_second.items())
    reading = c.seconds(weights_read(found.decode[0])) * 1000
    return (
        f"Machine (measured, medians of {c.rounds} rounds): memory {c.bytes_per_second / 1e9:.1f} GB/s, {rates}\n"
        f"Reading the weights that a decode step reads would take {reading:.1f} ms (estimated from that bandwidth)."
    )


def _steps(found: Bench) -> str:
    rows = [("STEP", "TOKENS", "CONTEXT", "MS", "P10", "P90", "TOKENS/S", "WATCHED", "GAP", ": READING WEIGHTS")]
    for step in (*found.prefill, *found.decode):
        ratio = ""
        if found.calibration is not None:
            ratio = f"{step.plain.median_ms / (found.calibration.seconds(weights_read(step)) * 1000):.2f} x"
        rows.append((
            step.phase, str(step.num_tokens), str(step.context_len), _ms(step.plain.median_ms), _ms(step.plain.p10_ms),
            _ms(step.plain.p90_ms), f"{step.num_tokens / step.plain.median_ms * 1000:,.0f}",
            _ms(step.watched.median_ms), f"{step.gap_ms / step.step_ms:.1%}", ratio,
        ))
    first = found.decode[0].plain
    note = (
        f"Measured: medians of {found.prefill[0].plain.rounds} rounds of prefill and {first.rounds} of decode, after "
        f"{found.prefill[0].plain.warm_up} and {first.warm_up} that were thrown away. WATCHED: the same step with a "
        "clock at each stage. GAP: what of it lies between the stages."
    )
    return f"{table(rows, right=range(1, 10))}\n{note}"


def _parts(found: Bench) -> str:
    rows: list[Sequence[str]] = [("STEP", *(group.upper() for group in GROUPS), "GAP", "MS")]
    for step in (*found.prefill, *found.decode):
        parts = by_group(by_stage(step))
        shares = (f"{ms / step.step_ms:.0%}" for ms in (*parts.values(), step.gap_ms))
        rows.append((f"{step.phase} {step.num_tokens if step.phase == 'prefill' else step.context_len}", *shares,
                     _ms(step.step_ms)))  # fmt: skip
    return table(rows, right=range(1, len(rows[0]))) + "\nShares of a watched step, means of the middle half of rounds."


def _stages(found: Bench, step: StepTimes) -> str:
    where = f"{step.num_tokens} tokens" if step.phase == "prefill" else f"{step.context_len} positions"
    rows: list[Sequence[str]] = [
        (f"{step.phase.upper()}, {where}", "MS", "SHARE", "BYTES", "OPERATIONS", "OP/BYTE", "GB/S", "GFLOP/S", "BOUND")
    ]
    for stage in sorted(by_stage(step), key=lambda s: -s.ms):
        bound = found.calibration and bound_of(stage, found.calibration, found.dtype)
        moves = bool(stage.num_bytes)
        rows.append((
            stage.stage, _ms(stage.ms), f"{stage.ms / step.step_ms:.1%}", f"{stage.num_bytes:,}",
            f"{stage.operations:,}", f"{stage.intensity:.2f}" if moves else "",
            f"{stage.bytes_per_second / 1e9:.1f}" if moves else "",
            f"{stage.operations_per_second / 1e9:.1f}" if stage.operations else "",
            f"{bound.by}, {bound.least_ms:.3f} ms" if bound else "",
        ))
    rows.append(("between the stages", _ms(step.gap_ms), f"{step.gap_ms / step.step_ms:.1%}", "", "", "", "", "", ""))
    note = "All layers together. Times measured, bytes and operations computed, the bound estimated from both."
    return f"{table(rows, right=range(1, 8))}\n{note}"


def _backends(found: BackendComparison) -> str:
    """Stage by stage, the backends beside each other."""
    names = [run.backend.upper() for run in found.runs]
    rows: list[Sequence[str]] = [
        (f"DECODE, {found.runs[0].step.context_len} positions", *(f"{name} MS" for name in names), "RATIO", "BYTES",
         "MOVING MS", *(f"{name} OPS" for name in names))
    ]  # fmt: skip
    for column in zip(*(split_of(found, run) for run in found.runs), strict=True):
        first, last = column[0], column[-1]
        rows.append((
            first.stage or "between the stages", *(_ms(s.ms) for s in column),
            f"{first.ms / last.ms:.2f}" if last.ms > 0 else "", f"{last.num_bytes:,}",
            f"{found.moving_ms(last.num_bytes):.3f}", *(f"{s.operations:,}" for s in column),
        ))  # fmt: skip
    steps = ", ".join(f"{run.backend} {_ms(run.step.plain.median_ms)} ms" for run in found.runs)
    note = (
        f"Unwatched: {steps}, {found.runs[-1].ratio:.2f} x by round (measured in turn, medians). OPS: operations that "
        f"torch is asked for in a step (counted); the smallest takes {found.smallest.median_ms * 1000:.2f} µs here. "
        f"BYTES: of {found.runs[-1].backend} (computed); MOVING: at {found.bytes_per_second / 1e9:.1f} GB/s, read in "
        "the same rounds (estimated)."
    )
    return f"{table(rows, right=range(1, len(rows[0])))}\n{note}"


def _ms(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"
