"""The batching page as tables. Pure functions of a trace and of a step."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from miniinfer.trace.batch.outcome import BatchOutcome
from miniinfer.trace.batch.records import AloneComparison, BatchTrace
from miniinfer.trace.batch.view import requests_at

WAITS = {"seqs": "sequences"}  # a place among those that run


def timeline_table(trace: BatchTrace) -> pd.DataFrame:
    """One row a step: what it did in all, and what each request was doing in a column of its own."""
    return pd.DataFrame([
        {
            "step": s.step, "ms": s.step_ms, "end ms": s.end_ms, "tokens": s.num_tokens, "padding": s.padding_slots,
            "idle": s.idle_slots, "budget": s.budget, "new tokens": s.num_new_tokens, "queue": " ".join(s.waiting),
            "waits for": WAITS.get(s.waits_for or "", s.waits_for or ""), "blocks used": s.blocks.num_used,
            "shared": s.blocks.num_shared, "cached, free": s.blocks.num_cached_free, "preempted": " ".join(s.preempted),
        }
        | {f"request {name}": state.value for name, state in s.states.items()}
        for s in trace.steps
    ])  # fmt: skip


def rows_table(trace: BatchTrace) -> pd.DataFrame:
    """One row for each request in each step that computed something of it."""
    return pd.DataFrame([
        {
            "step": s.step, "request": r.request_id, "phase": r.phase, "first position": r.start,
            "tokens": r.num_tokens, "padding": r.num_padding, "from the prefix cache": r.num_cached,
            "computed again": r.num_recomputed, "context": r.context_len,
            "token": r.token.text if r.token else "", "token id": r.token.token_id if r.token else None,
            "probability": r.token_prob,
            "raw probability": next((c.raw_prob for c in r.candidates if c.token == r.token), None),
            "margin": r.margin, "coin": r.coin, "ended": r.finish_reason or "", "error": r.error or "",
        }
        for s in trace.steps for r in s.rows
    ])  # fmt: skip


def requests_table(trace: BatchTrace, step: int) -> pd.DataFrame:
    """One row a request as it stood after the step."""
    prompts = {r.request_id: r for r in trace.requests}
    return pd.DataFrame([
        {
            "request": v.request_id, "state": v.state.value, "arrives": v.arrival, "prompt tokens": v.num_prompt_tokens,
            "output tokens": len(v.output), "TTFT ms": v.ttft_ms, "TPOT ms": v.tpot_ms,
            "preempted": v.num_preemptions, "from the prefix cache": v.num_cached, "computed again": v.num_recomputed,
            "ended": v.finish_reason or "", "temperature": prompts[v.request_id].params.temperature,
            "seed": str(prompts[v.request_id].params.seed), "prompt": prompts[v.request_id].prompt, "text": v.text,
            "error": v.error or "",
        }
        for v in requests_at(trace, step)
    ])  # fmt: skip


def blocks_table(trace: BatchTrace, step: int) -> pd.DataFrame:
    """One row a block of the pool after the step."""
    grid = trace.steps[step - 1].blocks
    return pd.DataFrame([
        {
            "block": b, "kind": grid.kind(b), "owners": " ".join(grid.owners[b]), "positions filled": grid.filled[b],
            "can be found again": grid.cached[b],
        }
        for b in range(len(grid.owners))
    ])


def outcomes_table(found: Sequence[BatchOutcome]) -> pd.DataFrame:
    """One row for each of the four outcomes."""
    return pd.DataFrame([
        {
            "batching": o.settings.batching,
            "memory": "paging, prefix sharing" if o.settings.shares_prefixes else
            "paging" if o.settings.paging else "no paging",
            "steps": o.totals.steps, "wall ms": o.totals.wall_ms, "tokens/s": o.totals.tok_s,
            "new tokens": o.totals.num_new_tokens, "slots": o.computed_slots, "padding": o.totals.padding_slots,
            "idle": o.totals.idle_slots, "wasted %": 100 * o.wasted_share,
            "mean TTFT ms": _mean([v.ttft_ms for v in o.requests]),
            "mean TPOT ms": _mean([v.tpot_ms for v in o.requests]),
            "preempted": o.totals.num_preemptions, "computed again": o.totals.num_recomputed,
            "from the prefix cache": o.totals.num_cached, "KV peak bytes": o.totals.peak_block_bytes,
            "refused": sum(v.error is not None for v in o.requests), "longest": o.longest or "",
        }
        for o in found
    ])  # fmt: skip


def lanes_table(found: Sequence[BatchOutcome]) -> pd.DataFrame:
    """The lanes of all outcomes: one row for each stretch of steps in which a request did the same."""
    return pd.DataFrame([
        {
            "batching": o.settings.batching, "paging": o.settings.paging, "request": p.request_id,
            "longest": p.request_id == o.longest, "state": p.state.value, "first step": p.first, "last step": p.last,
            "start ms": p.start_ms, "end ms": p.end_ms, "slots": p.slots, "wasted": p.wasted,
        }
        for o in found for p in o.lanes
    ])  # fmt: skip


def alone_table(found: Sequence[AloneComparison]) -> pd.DataFrame:
    """One row a request that was run alone."""
    return pd.DataFrame([
        {
            "request": one.request_id, "tokens": len(one.batched_ids), "same tokens": "yes" if one.same else "no",
            "first difference at": None if one.first_difference is None else one.first_difference + 1,
            "largest logit difference": one.largest_logit_difference, "at token": one.largest_at + 1,
            "smallest margin": one.smallest_margin, "margin at token": one.margin_at + 1,
            "temperature": one.params.temperature,
            "greedy choice could turn": "yes" if one.could_differ else "no",
        }
        for one in found
    ])  # fmt: skip


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
