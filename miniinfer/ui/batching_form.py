"""Requests and settings as people edit them, and back. No Streamlit in it: a row is a plain mapping."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from miniinfer.config import SamplingParams
from miniinfer.errors import BadInputError, MiniInferError
from miniinfer.trace.batch_settings import BatchRequest

MAX_REQUESTS = 16
COLUMNS = ("id", "prompt", "chat", "max_new_tokens", "temperature", "top_p", "top_k", "seed", "arrival")


def frame_of(requests: Iterable[BatchRequest]) -> pd.DataFrame:
    """One row a request. The seed is text: a number field of a browser counts to 2**53 only."""
    rows = [
        {
            "id": r.request_id, "prompt": r.prompt, "chat": r.chat, "max_new_tokens": r.params.max_new_tokens,
            "temperature": r.params.temperature, "top_p": r.params.top_p, "top_k": r.params.top_k,
            "seed": str(r.params.seed), "arrival": r.arrival,
        }
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
    seed = _text(row.get("seed")).strip() or "0"
    if not (seed.isascii() and seed.isdigit()):
        raise BadInputError(f"Its seed must be a whole number of 0 or more, not {seed!r}.")
    usual = SamplingParams()
    params = SamplingParams(
        temperature=_number(row, "temperature", usual.temperature),
        top_p=_number(row, "top_p", usual.top_p),
        top_k=_whole(row, "top_k", usual.top_k),
        seed=int(seed),
        max_new_tokens=_whole(row, "max_new_tokens", usual.max_new_tokens),
    )
    return BatchRequest(name, _text(row.get("prompt")), params, _whole(row, "arrival", 0), row.get("chat") is True)


def with_arrivals(frame: pd.DataFrame, arrivals: Sequence[int]) -> pd.DataFrame:
    """The same table with other arrival steps, one a row."""
    return frame.assign(arrival=list(arrivals))


def _text(value: Any) -> str:
    return "" if value is None or value is pd.NA or value != value else str(value)


def _number(row: Mapping[str, Any], name: str, usual: float) -> float:
    value = row.get(name)
    if value is None or value is pd.NA or value != value:
        return usual
    try:
        return float(value)
    except (TypeError, ValueError):
        raise BadInputError(f"{name} must be a number, not {value!r}.") from None


def _whole(row: Mapping[str, Any], name: str, usual: int) -> int:
    value = float(_number(row, name, usual))
    if not value.is_integer():
        raise BadInputError(f"{name} must be a whole number, not {value:g}.")
    return int(value)
