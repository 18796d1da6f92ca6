"""Requests and settings as people edit them, and back. No Streamlit in it: a row is a plain mapping."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from miniinfer.config import SamplingParams
from miniinfer.errors import BadInputError, MiniInferError
from miniinfer.store.saved_batch import SavedSet
from miniinfer.trace.batch.settings import BatchRequest

MAX_REQUESTS = 16
# Two sets of columns of the one table: what most requests need, and the rest of the sampler's settings.
USUAL = ("id", "prompt", "chat", "max_new_tokens", "temperature", "top_p", "top_k", "seed", "arrival")
REALS = ("temperature", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
MORE = (
    "id", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "stop", "stop_ids", "order",
)  # fmt: skip
COLUMNS = (*USUAL, *MORE[1:])
ESCAPES = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}  # a cell has one line


def frame_of(requests: Iterable[BatchRequest]) -> pd.DataFrame:
    """One row a request. The seed is text: a number field of a browser counts to 2**53 only."""
    rows = [
        {
            "id": r.request_id, "prompt": r.prompt, "chat": r.chat, "max_new_tokens": r.params.max_new_tokens,
            "top_k": r.params.top_k, "seed": str(r.params.seed), "arrival": r.arrival,
            "stop": ["".join(ESCAPES.get(c, c) for c in text) for text in r.params.stop],
            "stop_ids": [str(token_id) for token_id in r.params.stop_ids], "order": list(r.params.order),
        }
        | {name: getattr(r.params, name) for name in REALS}
        for r in requests
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=list(COLUMNS))


def requests_of(frame: pd.DataFrame) -> tuple[list[BatchRequest], list[str]]:
    """The requests of an edited table, and a sentence for each row that is none; the others go on.

    A row without any text is no request. Raises BadInputError for more than MAX_REQUESTS.
    """
    rows = [row for row in frame.to_dict("records") if _text(row.get("prompt")) or _text(row.get("id"))]
    if len(rows) > MAX_REQUESTS:
        raise BadInputError(f"A batch has room for {MAX_REQUESTS} requests here, not {len(rows)}: remove some rows.")
    made, refused = [], []
    for number, row in enumerate(rows, 1):
        name = _text(row.get("id")).strip() or f"r{number}"
        try:
            made.append(_request(name, row))
        except MiniInferError as error:
            refused.append(f"Request {name!r} does not run. {error}")
    return made, refused


def _request(name: str, row: Mapping[str, Any]) -> BatchRequest:
    usual = SamplingParams()
    order = _list(row, "order")
    params = SamplingParams(
        **{real: _number(row, real, getattr(usual, real)) for real in REALS},
        top_k=_whole(row, "top_k", usual.top_k),
        seed=_digits(_text(row.get("seed")).strip() or "0", "Its seed"),
        stop=tuple(_unescaped(text) for text in _list(row, "stop") or ()),
        stop_ids=tuple(_digits(text.strip(), "A stop id") for text in _list(row, "stop_ids") or ()),
        max_new_tokens=_whole(row, "max_new_tokens", usual.max_new_tokens),
        order=usual.order if order is None else tuple(order),
    )
    return BatchRequest(name, _text(row.get("prompt")), params, _whole(row, "arrival", 0), row.get("chat") is True)


def with_arrivals(frame: pd.DataFrame, arrivals: Sequence[int]) -> pd.DataFrame:
    """The same table with other arrival steps, one a row."""
    return frame.assign(arrival=list(arrivals))


def saved_set(preset: str, own: str | None, frame: pd.DataFrame, settings: Mapping[str, Any]) -> SavedSet:
    """Rows with plain values; an empty cell is null."""
    rows = json.loads(frame.reindex(columns=list(COLUMNS)).to_json(orient="records", double_precision=15))
    return SavedSet(preset, own, tuple(rows), dict(settings))


def frame_of_set(saved: SavedSet) -> pd.DataFrame:
    """The table as it was typed."""
    frame = pd.DataFrame(list(saved.rows), columns=list(COLUMNS))
    for name in REALS:
        frame[name] = pd.to_numeric(frame[name], errors="coerce").astype(float)
    return frame


def _absent(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and value != value)


def _text(value: Any) -> str:
    return "" if _absent(value) else str(value)


def _list(row: Mapping[str, Any], name: str) -> list[str] | None:
    value = row.get(name)
    return None if _absent(value) else [str(one) for one in value]  # type: ignore[union-attr]


def _unescaped(text: str) -> str:
    meant = {written: char for char, written in ESCAPES.items()}
    return re.sub(r"\\.", lambda found: meant.get(found[0], found[0]), text)


def _digits(text: str, whose: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise BadInputError(f"{whose} must be a whole number from 0 to 2**64 - 1, not {text!r}.")
    return int(text)


def _number(row: Mapping[str, Any], name: str, usual: float) -> float:
    value = row.get(name)
    if _absent(value):
        return usual
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise BadInputError(f"{name} must be a number, not {value!r}.") from None


def _whole(row: Mapping[str, Any], name: str, usual: int) -> int:
    value = float(_number(row, name, usual))
    if not value.is_integer():
        raise BadInputError(f"{name} must be a whole number, not {value:g}.")
    return int(value)
