"""What the workspace draws, as one message: a pure function of a run and of what the browser asked for.

The format is written down in docs/workspace-message.md. Parts that were not asked for are left out, so that a decode
step sends its own rows and columns only: its bytes grow with the context, not with its square.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from miniinfer.figures.cost.stages import group_stage_ms
from miniinfer.figures.payload import pack
from miniinfer.provenance import Provenance
from miniinfer.trace.records import NextToken, StepMeta, TokenInfo
from miniinfer.trace.run import ForceToken, Run

MOST_CELLS = 512  # rows of one head that are sent as they are; of a longer pattern at most as many cells


@dataclass(frozen=True)
class HeadAsk:
    """Rows start .. stop - 1 of one head's pattern; if there are more than MOST_CELLS, all of it, max-pooled."""

    layer: int
    head: int
    start: int
    stop: int


@dataclass(frozen=True)
class ExactAsk:
    """One head's row in float32: at `position`, or (None) the newest row of each step whose details are asked for."""

    layer: int
    head: int
    position: int | None = None


@dataclass(frozen=True)
class Selection:
    """What the browser has and what it wants; everything is absolute, so a message can be asked for again."""

    ask: int = 0
    cursor: int = 0
    have_meta: int = 0  # steps whose meta the browser holds
    have_tokens: int = 0
    have_kv: int = 0
    details: tuple[int, ...] = ()
    head: HeadAsk | None = None
    exact: ExactAsk | None = None
    row: int | None = None
    probs_from: int | None = None


@dataclass(frozen=True)
class Surroundings:
    """What stands around the run: other runs of the session, the model's state, an error sentence."""

    runs: tuple[dict[str, Any], ...] = ()
    model: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    note: str | None = None  # worth knowing, nothing wrong


def encode(run: Run, selection: Selection, around: Surroundings | None = None) -> bytes:
    """The message for one run and selection."""
    around = around or Surroundings()
    steps = run.steps
    header: dict[str, Any] = {
        "v": 1,
        "ask": selection.ask,
        "error": around.error,
        "note": around.note,
        "run": describe(run),
        "runs": list(around.runs),
        "model": around.model,
        "last": len(steps),
        "cursor": min(max(selection.cursor, 0), len(steps)),
        "source": _sources(run),
    }
    blobs: dict[str, np.ndarray] = {}
    header["meta_from"] = min(selection.have_meta, len(steps)) + 1
    header["meta"] = [_meta(m, run.info.kind) for m in steps[selection.have_meta :]]
    header["tok_from"] = min(selection.have_tokens, len(run.tokens))
    header["tokens"] = [token_entry(t) for t in run.tokens[selection.have_tokens :]]
    length = steps[-1].context_len if steps else 0
    if length > selection.have_kv:
        header["kv_from"] = selection.have_kv
        blobs["kv"] = run.kv_norms(selection.have_kv)
    details: dict[str, Any] = {}
    for step in selection.details:
        if 1 <= step <= len(steps):
            details[str(step)] = _detail(run, step, blobs)
    if details:
        header["details"] = details
    if selection.head is not None and length and _has_head(run, selection.head):
        header["head"], blobs["head"] = _head(run, selection.head, length)
    if selection.exact is not None and _has_head(run, selection.exact):
        rows = _exact_rows(run, selection.exact, selection.details)
        if rows:
            header["exact"] = {"layer": selection.exact.layer, "head": selection.exact.head, "at": list(rows)}
            blobs["exact"] = np.concatenate(list(rows.values()))
    if selection.row is not None and 0 <= selection.row < length:
        header["row"] = {"pos": selection.row, "next": next_to_json(run.next_at(selection.row))}
        looked_at = run.rows_at(selection.row)
        if looked_at is not None:
            blobs["row"] = looked_at
    if selection.probs_from is not None:
        header["probs"] = {"from": selection.probs_from}
        blobs["probs"] = run.token_probs(selection.probs_from)
    return pack(header, blobs)


def _has_head(run: Run, ask: HeadAsk | ExactAsk) -> bool:
    return ask.layer < run.info.model.num_layers and ask.head < run.info.model.num_heads


def _head(run: Run, ask: HeadAsk, length: int) -> tuple[dict[str, int], np.ndarray]:
    stop = min(ask.stop, length)
    start = min(ask.start, stop)
    facts = {"layer": ask.layer, "head": ask.head}
    if stop - start <= MOST_CELLS:
        return facts | {"from": start, "to": stop, "cell": 1}, run.head_rows(ask.layer, ask.head, start, stop)
    cell = 2
    while length > cell * MOST_CELLS:
        cell *= 2
    return facts | {"from": 0, "to": length, "cell": cell}, run.head_map(ask.layer, ask.head, cell)


def _exact_rows(run: Run, ask: ExactAsk, details: tuple[int, ...]) -> dict[int, np.ndarray]:
    steps = run.steps
    positions = {steps[step - 1].context_len - 1 for step in details if 1 <= step <= len(steps)}
    if ask.position is not None:
        positions = {ask.position} if steps and ask.position < steps[-1].context_len else set()
    rows = {position: run.exact_row(ask.layer, ask.head, position) for position in sorted(positions)}
    return {position: row for position, row in rows.items() if row is not None}


def _detail(run: Run, step: int, blobs: dict[str, np.ndarray]) -> dict[str, Any]:
    found = run.next_token(step)
    detail: dict[str, Any] = {"next": None if found is None else next_to_json(found)}
    rows = run.rows_at(run.steps[step - 1].context_len - 1)
    if rows is not None:
        blobs[f"rows:{step}"] = rows
    else:
        detail["no_rows"] = True
    pooled = run.pooled_maps(step)
    if pooled is not None:
        detail["cell"] = pooled.cell
        blobs[f"maps:{step}"] = pooled.maps
    return detail


def describe(run: Run) -> dict[str, Any]:
    """The facts of a run that no step changes, and how it ended."""
    info, model = run.info, run.info.model
    return {
        "id": info.run_id, "name": info.name, "kind": info.kind, "parent": info.parent,
        "fork_step": info.edit.step if info.edit else None, "model": info.model_name, "device": info.device.upper(),
        "dtype": info.dtype, "backend": info.backend, "prompt_len": info.num_prompt_tokens, "chat": info.chat,
        "finished": run.finish_reason,
        "resumed": info.resumed, "max_new": info.params.max_new_tokens, "num_layers": model.num_layers,
        "num_heads": model.num_heads,
        "num_kv_heads": model.num_kv_heads, "head_dim": model.head_dim, "hidden_size": model.hidden_size,
        "vocab_size": model.vocab_size, "itemsize": info.itemsize, "block_size": info.block_size,
        "weight_bytes": info.weight_bytes, "context_length": info.context_length,
        "prefill": "one pass" if info.one_pass else "token by token", "default_head": list(info.default_head or (0, 0)),
        "params": {
            name: getattr(info.params, name)
            for name in ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty",
                         "frequency_penalty", "max_new_tokens")
        } | {"seed": str(info.params.seed)},  # a 64-bit seed does not fit a JavaScript number
    }


def run_entry(run: Run) -> dict[str, Any]:
    """One line of the run menu."""
    info = run.info
    forced = info.edit.token_id if isinstance(info.edit, ForceToken) else None
    return {
        "id": info.run_id, "name": info.name, "kind": info.kind, "parent": info.parent,
        "fork_step": info.edit.step if info.edit else None, "forced_token": forced,
        "last": len(run.steps), "finished": run.finish_reason,
    }


def _meta(m: StepMeta, kind: str) -> dict[str, Any]:
    """What a run that is only saved has no engine for is null."""
    there = kind != "saved"
    return {
        "step": m.step, "phase": m.phase, "n": m.num_scheduled, "ctx": m.context_len, "ms": round(m.step_ms, 3),
        "token": m.token_id, "forced": m.forced, "logprob": finite(m.logprob), "coin": m.coin,
        "kv_used": m.kv_used_bytes, "kv_alloc": m.kv_allocated_bytes,
        "kv_reserved": m.kv_reserved_bytes if there else None,
        "weights_read": m.weight_bytes_read if there else None, "kv_read": m.kv_bytes_read if there else None,
        "stages": {k: round(v, 3) for k, v in group_stage_ms(m.stage_ms).items()} if m.stage_ms else None,
    }


def next_to_json(found: NextToken) -> dict[str, Any]:
    """NEXT of the message format."""
    return {
        "ids": [t.token_id for t in found.tokens], "toks": [token_entry(t) for t in found.tokens],
        "raw": list(found.raw_probs), "used": list(found.used_probs), "cut": list(found.cut_by),
        "kept": found.num_kept, "rest": {"count": found.rest_count, "raw": found.rest_raw, "used": found.rest_used},
        "coin": found.coin, "lo": found.lo, "hi": found.hi, "token": found.token_id, "forced": found.forced,
        "greedy": found.greedy, "entropy": [found.entropy_raw, found.entropy_used], "temperature": found.temperature,
    }


def token_entry(token: TokenInfo) -> list[Any]:
    """[id, text, bytes in hex, flags]: 1 control token, 2 part of a split character."""
    return [token.token_id, token.text, token.data.hex(), int(token.control) | 2 * int(token.partial)]


def finite(value: float | None) -> float | None:
    """JSON knows no infinity: None in its place."""
    return value if value is not None and math.isfinite(value) else None


def _sources(run: Run) -> dict[str, str]:
    if run.info.kind != "live":
        return dict.fromkeys(("attention", "next", "ms", "kv", "read"), Provenance.RECORDED.value)
    return {
        "attention": Provenance.COMPUTED.value, "next": Provenance.COMPUTED.value, "ms": Provenance.MEASURED.value,
        "kv": Provenance.COMPUTED.value, "read": Provenance.COMPUTED.value,
    }
