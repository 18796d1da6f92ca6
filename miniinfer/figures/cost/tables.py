"""The cost of a token as tables. Times in ms, memory in bytes, shares from 0 to 1."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from miniinfer.figures.cost.stages import group_stage_ms
from miniinfer.figures.cost.words import GAP, stage_name
from miniinfer.measure.groups import group_of
from miniinfer.measure.records import (
    CacheOff,
    Calibration,
    CountedParts,
    Curve,
    PrecisionComparison,
    StepParts,
    StepTimes,
)
from miniinfer.measure.summary import bound_of, by_stage, stage_ms
from miniinfer.trace.records import StepMeta

STEP = "step"


def time_table(steps: Sequence[StepParts | None], order: Sequence[str], gap: str = GAP) -> pd.DataFrame:
    """One row a kind of stage, all layers together, then the gap and the whole. Measured.

    steps: of different phases; two columns for each that is not None. gap: what lies between the stages is called so.
    """
    found = [(step, stage_ms(step)) for step in steps if step is not None]
    names = dict.fromkeys(name for _, stages in found for name in stages)
    rows: list[dict[str, object]] = [{"part": group_of(n), "stage": stage_name(n, order)} for n in names]
    rows += [{"part": gap, "stage": gap}, {"part": STEP, "stage": STEP}]
    for step, stages in found:
        column = [stages.get(name, 0.0) for name in names] + [step.gap_ms, step.step_ms]
        for row, ms in zip(rows, column, strict=True):
            row |= {f"{step.phase} ms": ms, f"of {step.phase}": ms / (step.step_ms or 1.0)}
    return pd.DataFrame(rows)


def layers_table(steps: Sequence[StepTimes], order: Sequence[str]) -> pd.DataFrame:
    """Every stage of every layer, with what it moves and computes."""
    rows: list[dict[str, object]] = []
    for step in steps:
        for time, cost in zip(step.stages, step.costs, strict=True):
            rows.append({
                "phase": step.phase, "part": time.group, "layer": time.layer, "stage": stage_name(time.stage, order),
                "ms": time.ms, "weight bytes": cost.weight_bytes, "KV bytes": cost.kv_bytes,
                "other bytes": cost.input_bytes + cost.written_bytes, "operations": cost.operations,
            })
        rows.append({"phase": step.phase, "part": GAP, "layer": None, "stage": GAP, "ms": step.gap_ms})
    return pd.DataFrame(rows)


def roofline_table(
    steps: Sequence[CountedParts], calibration: Calibration | None, dtype: str, order: Sequence[str]
) -> pd.DataFrame:
    """Bytes and operations computed, ms and rates measured, the least time estimated from the calibration if known."""
    rows = []
    for step in steps:
        for stage in by_stage(step):
            if not stage.num_bytes:
                continue
            row: dict[str, object] = {
                "phase": step.phase, "stage": stage_name(stage.stage, order), "ms": stage.ms,
                "bytes": stage.num_bytes, "of them weights": stage.weight_bytes, "of them KV": stage.kv_bytes,
                "operations": stage.operations, "operations per byte": stage.intensity,
                "GB/s": stage.bytes_per_second / 1e9, "GFLOP/s": stage.operations_per_second / 1e9,
            }
            bound = bound_of(stage, calibration, dtype) if calibration else None
            if bound is not None:
                of_limit = bound.least_ms / stage.ms if stage.ms > 0 else None
                row |= {"limited by": bound.by, "least ms": bound.least_ms, "of the limit": of_limit}
            rows.append(row)
    return pd.DataFrame(rows)


def curve_table(curve: Curve, calibration: Calibration | None) -> pd.DataFrame:
    """Bytes by part (computed); ms where it was measured, and what moving the bytes would take (estimated). What is
    not known has no column."""
    measured = {t.context_len: t.step for t in curve.times}
    ratios = {t.context_len: t.ratio for t in curve.times}
    rows = []
    for cost in curve.costs:
        at = measured.get(cost.context_len)
        rows.append({
            "positions": cost.context_len, "weight bytes": cost.weight_bytes, "KV bytes": cost.kv_bytes,
            "other bytes": cost.other_bytes, "bytes": cost.num_bytes,
            "ms": at.median_ms if at else None, "p10 ms": at.p10_ms if at else None,
            "p90 ms": at.p90_ms if at else None, "ratio": ratios.get(cost.context_len),
            "estimated ms": calibration.seconds(cost.num_bytes) * 1000 if calibration else None,
        })
    return pd.DataFrame(rows).dropna(axis="columns", how="all")


def positions_table(steps: Sequence[StepMeta]) -> pd.DataFrame:
    """Positions that each step of a run computed, and would have computed without the cache, and their sums so far."""
    frame = pd.DataFrame({
        "step": [m.step for m in steps], "with the cache": [m.num_scheduled for m in steps],
        "without the cache": [m.context_len for m in steps],
    })  # fmt: skip
    for way in ("with the cache", "without the cache"):
        frame[f"{way}, so far"] = frame[way].cumsum()
    return frame


def cache_off_table(found: CacheOff) -> pd.DataFrame:
    """One row a length."""
    return pd.DataFrame([
        {
            "positions": one.context_len, "with ms": one.on.median_ms, "without ms": one.off.median_ms,
            "ratio": one.ratio, "computed with": 1, "computed without": one.context_len,
            "largest logit difference": one.max_difference, "margin": one.margin,
        }
        for one in found.lengths
    ])  # fmt: skip


def precision_table(found: PrecisionComparison) -> pd.DataFrame:
    """One row a precision. Without a device allocator there is no column for it."""
    frame = pd.DataFrame([
        {
            "precision": run.dtype, "weight bytes": run.weight_bytes,
            "embedding bytes": run.embedding_bytes, "KV bytes a token": run.kv_bytes_per_token,
            "prefill ms": run.prefill_ms,
            "decode ms": run.decode.median_ms, "p90 ms": run.decode.p90_ms, "ratio": run.decode_ratio,
            "logit difference": run.logit_difference, "KL, nats": run.kl_nats, "allocator bytes": run.allocator_bytes,
        }
        for run in found.runs
    ])  # fmt: skip
    return frame.dropna(axis="columns", how="all")


def precision_tokens_table(found: PrecisionComparison, texts: dict[int, str]) -> pd.DataFrame:
    """One row an output token: what each precision took, and how far the best was ahead there, in logits."""
    rows = []
    for place, tokens in enumerate(zip(*(run.tokens for run in found.runs), strict=True)):
        row: dict[str, object] = {"output token": place + 1}
        for run, token in zip(found.runs, tokens, strict=True):
            row[run.dtype] = texts[token.token_id]
            row[f"margin {run.dtype}"] = token.margin
            row[f"probability {run.dtype}"] = token.probs[token.token_id]
        row["same"] = "yes" if len({t.token_id for t in tokens}) == 1 else "no"
        rows.append(row)
    return pd.DataFrame(rows)


def run_table(steps: Sequence[StepMeta]) -> pd.DataFrame:
    """Every step of the run as it was stepped: its parts in ms, which add up to it, and what it read."""
    return pd.DataFrame([
        {
            "step": m.step, "phase": m.phase, "tokens": m.num_scheduled, "positions": m.context_len, "ms": m.step_ms,
            **{f"{part} ms": ms for part, ms in group_stage_ms(m.stage_ms).items()}, "recording ms": m.recording_ms,
            "weight bytes": m.weight_bytes_read, "KV bytes": m.kv_bytes_read,
        }
        for m in steps
    ])  # fmt: skip
