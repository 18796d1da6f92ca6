"""The message between Python and the picture of a batch: a pure function of a trace and of what the browser has.

The frame is that of figures/payload.py; docs/batching-message.md describes its fields. Requests are named by their
place in the run, so that no id is repeated for every block of every step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from miniinfer.figures.payload import pack
from miniinfer.figures.sampling.settings_words import sampler_words
from miniinfer.provenance import Provenance
from miniinfer.trace.batch.records import BatchRow, BatchStep, BatchTrace, BlockGrid
from miniinfer.trace.batch.settings import POLICY_NAMES
from miniinfer.trace.batch.tally import StepSums
from miniinfer.trace.records import TokenInfo

NOBODY = 255  # owner of a free block
SHOWN_PROMPT = 240  # characters
WORDS = {"continuous": "continuous batching", "static": "static batching"}


def step_entry(trace: BatchTrace, step: BatchStep, sums: StepSums) -> dict[str, Any]:
    """A step as JSON, with the requests and the sums as they stood after it."""
    place = places(trace)
    totals = sums.totals
    return {
        "step": step.step, "ms": step.step_ms, "end": step.end_ms, "budget": step.budget,
        "states": [step.states[request.request_id].value for request in trace.requests],
        "rows": [_row(row, place) for row in step.rows],
        "arrived": [place[i] for i in step.arrived], "admitted": [place[i] for i in step.admitted],
        "preempted": [place[i] for i in step.preempted], "waiting": [place[i] for i in step.waiting],
        "waits_for": step.waits_for, "tokens": step.num_tokens, "padding": step.padding_slots,
        "idle": step.idle_slots, "new": step.num_new_tokens,
        "shared": {str(b): [place[i] for i in ids] for b, ids in enumerate(step.blocks.owners) if len(ids) > 1},
        "used": step.blocks.num_used, "num_shared": step.blocks.num_shared,
        "cached_free": step.blocks.num_cached_free,
        "requests": [
            [v.ttft_ms, v.tpot_ms, v.num_outputs, v.num_preemptions, v.num_cached, v.num_recomputed, v.finish_reason]
            for v in sums.requests
        ],
        "totals": {
            "wall": totals.wall_ms, "new": totals.num_new_tokens, "tok_s": totals.tok_s,
            "padding": totals.padding_slots, "idle": totals.idle_slots, "tokens": totals.num_tokens,
            "recomputed": totals.num_recomputed, "cached": totals.num_cached,
            "preemptions": totals.num_preemptions, "finished": totals.num_finished,
        },
    }  # fmt: skip


def encode_batch(
    trace: BatchTrace, run_id: str, name: str, entries: Sequence[Mapping[str, Any]], *,
    device: str, ask: int, have: int, resume: int = 0, error: str | None = None,
) -> bytes:
    """What a browser that has `have` steps lacks. entries: `step_entry` of every step. resume: a step that a browser
    which sees the batch for the first time shall go to."""
    place = places(trace)
    header: dict[str, Any] = {
        "v": 1, "ask": ask, "error": error,
        "run": {
            "id": run_id, "name": name, "model": trace.model_name, "device": device, "dtype": trace.dtype,
            "served": describe_settings(trace), "budget": trace.settings.token_budget,
            "max_seqs": trace.settings.max_seqs, "block_size": trace.settings.block_size,
            "num_blocks": trace.num_blocks, "block_bytes": trace.block_bytes, "static":
            trace.settings.batching == "static", "finished": trace.finished, "resume": resume,
            "requests": [
                {
                    "id": r.request_id, "prompt": r.prompt[:SHOWN_PROMPT], "chat": r.chat, "arrival": r.arrival,
                    "tokens": len(trace.prompt_tokens.get(r.request_id, ())), "max_new": r.params.max_new_tokens,
                    "sampler": sampler_words(r.params), "refused": trace.refused.get(r.request_id),
                }
                for r in trace.requests
            ],
        },
        "last": len(trace.steps), "from": have + 1, "steps": list(entries[have:]),
        "aborted": {str(place[i]): step for i, step in trace.aborted.items()},
        "source": {"times": Provenance.MEASURED, "counts": Provenance.COMPUTED},
    }  # fmt: skip
    blobs = {f"blocks:{step.step}": block_bytes(step.blocks, place) for step in trace.steps[have:]}
    return pack(header, blobs)


def describe_settings(trace: BatchTrace) -> str:
    """How the requests are served, on one line."""
    s = trace.settings
    paging = "prefix sharing" if s.shares_prefixes else "paging" if s.paging else "no paging"
    return f"{WORDS[s.batching]}, {POLICY_NAMES[s.policy]}, {paging}"


def places(trace: BatchTrace) -> dict[str, int]:
    """Request id -> its place among the requests of the run."""
    return {request.request_id: i for i, request in enumerate(trace.requests)}


def block_bytes(grid: BlockGrid, place: Mapping[str, int]) -> np.ndarray:
    """u8 [N, 4]: place of the first owner (NOBODY: free), 1 if its contents can be found again, filled positions as
    low and high byte."""
    cells = np.zeros((len(grid.owners), 4), np.uint8)
    for b, (owners, cached, filled) in enumerate(zip(grid.owners, grid.cached, grid.filled, strict=True)):
        cells[b] = (place[owners[0]] if owners else NOBODY, cached, filled % 256, filled // 256)
    return cells


def _row(row: BatchRow, place: Mapping[str, int]) -> dict[str, Any]:
    return {
        "r": place[row.request_id], "phase": row.phase, "start": row.start, "n": row.num_tokens,
        "pad": row.num_padding, "cached": row.num_cached, "again": row.num_recomputed, "ctx": row.context_len,
        "token": _token(row.token), "prob": row.token_prob, "coin": row.coin, "margin": row.margin, "ends": row.ends,
        "top": [[_token(c.token), c.raw_prob, c.used_prob] for c in row.candidates],
        "ended": row.finish_reason, "error": row.error,
    }  # fmt: skip


def _token(token: TokenInfo | None) -> list[Any] | None:
    """[id, text, bytes in hex, flags] as in the workspace's message."""
    if token is None:
        return None
    return [token.token_id, token.text, token.data.hex(), token.control + 2 * token.partial]


def measured_bytes(step: BatchStep) -> int:
    """About what a step takes in memory: its vectors, and its rows, candidates and blocks as objects, as record and as
    `step_entry`. A test holds it against what they really take."""
    rows = sum(1100 + 900 * len(row.candidates) for row in step.rows)
    return step.final_norm.nbytes + 2000 + rows + 40 * len(step.blocks.owners)
