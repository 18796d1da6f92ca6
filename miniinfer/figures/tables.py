"""Tables behind the panels: each figure has a twin of plain rows, with the same numbers and their source."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import Any

import pandas as pd

from miniinfer.figures.workspace import describe
from miniinfer.trace.compare import RunComparison
from miniinfer.trace.records import NextToken
from miniinfer.trace.run import Run

# What a cell begins with that a spreadsheet takes for a formula, the wide forms in some languages; so shared/export.js.
FORMULA = re.compile(r"[\t\r]|\n*[=+\-@＝＋－＠]")


def candidates_table(found: NextToken) -> pd.DataFrame:
    """One row a candidate, and the rest of the vocabulary as the last one."""
    rows = [
        {"token_id": t.token_id, "token_str": t.text, "raw_prob": raw, "used_prob": used, "cut_by": cut or ""}
        for t, raw, used, cut in zip(found.tokens, found.raw_probs, found.used_probs, found.cut_by, strict=True)
    ]
    rest = f"(the other {found.rest_count:,} tokens)"
    rows.append(
        {"token_id": -1, "token_str": rest, "raw_prob": found.rest_raw, "used_prob": found.rest_used, "cut_by": ""}
    )
    return pd.DataFrame(rows)


def steps_table(run: Run) -> pd.DataFrame:
    """One row a step: what went through the model, what it cost, what was chosen."""
    texts = {i: t.text for i, t in enumerate(run.tokens)}
    return pd.DataFrame([
        {
            "step": m.step, "phase": m.phase, "num_scheduled_tokens": m.num_scheduled, "context_len": m.context_len,
            "step_ms": m.step_ms, "token_id": m.token_id, "token_str": texts.get(m.context_len, ""),
            "forced": m.forced, "logprob": m.logprob, "coin": m.coin, "kv_used_bytes": m.kv_used_bytes,
            "kv_allocated_bytes": m.kv_allocated_bytes, "kv_reserved_bytes": m.kv_reserved_bytes,
            "weight_bytes_read": m.weight_bytes_read, "kv_bytes_read": m.kv_bytes_read,
        }
        for m in run.steps
    ])


def comparison_table(comparison: RunComparison) -> pd.DataFrame:
    """One row an output token of two runs."""
    return pd.DataFrame([
        {
            "output": p.index + 1,
            "token A": p.a.text if p.a else "", "used probability A": p.a_prob,
            "same": "" if p.a is None or p.b is None else ("=" if p.same else "≠"),
            "token B": p.b.text if p.b else "", "used probability B": p.b_prob,
            "margin": p.margin, "difference": p.used_difference,
        }
        for p in comparison.pairs
    ])


def run_facts(run: Run) -> list[tuple[str, Any]]:
    """What a run was made with, as (name, value)."""
    facts = describe(run)
    params = facts.pop("params")
    return [*facts.items(), *params.items()]


def to_csv(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """CSV text (RFC 4180). A cell that a spreadsheet would run as a formula gets a leading apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([_harmless(name) for name in header])
    writer.writerows([_harmless(cell) for cell in row] for row in rows)
    return out.getvalue()


def _harmless(cell: Any) -> Any:
    return "'" + cell if isinstance(cell, str) and FORMULA.match(cell) else cell


def frame_to_parquet(frame: pd.DataFrame) -> bytes:
    """A table as a Parquet file. A column that mixes kinds (numbers, and a word where there is none) becomes text."""
    plain = frame.copy()
    for name in plain.columns:
        kinds = {type(value) for value in plain[name] if value is not None and value == value}
        if plain[name].dtype == object and len(kinds) > 1:
            plain[name] = [None if value is None or value != value else str(value) for value in plain[name]]
    plain.columns = plain.columns.map(str)
    return plain.to_parquet(index=False)


def frame_to_csv(frame: pd.DataFrame) -> str:
    """A table as CSV text, through `to_csv`."""
    return to_csv(list(frame.columns), [list(row) for row in frame.itertuples(index=False)])
