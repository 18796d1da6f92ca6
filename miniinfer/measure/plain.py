"""Measurements as JSON and back, so that they outlive the page that asked for them. What comes back is read by the
types of records.py: every field is checked, and nothing else can be made of a text."""

from __future__ import annotations

import dataclasses
import json
import types
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from miniinfer.errors import BadInputError
from miniinfer.measure.records import BackendComparison, CacheOff, Curve, PrecisionComparison, StepTimes

# By the view of the page "Cost" that shows them.
KINDS: dict[str, Any] = {
    "times": tuple[StepTimes, StepTimes], "curve": Curve, "backends": BackendComparison, "cache_off": CacheOff,
    "precision": PrecisionComparison,
}  # fmt: skip
MAX_TEXT = 200  # characters of a name in a record


def to_text(result: Any) -> str:
    """result: one of the KINDS."""
    return json.dumps(result, default=dataclasses.asdict, separators=(",", ":"))


def from_text(view: str, text: str) -> Any:
    """What `to_text` made of a result of this view. Raises BadInputError, one sentence, for anything else."""
    try:
        return _read(KINDS[view], json.loads(text))
    except (KeyError, ValueError, TypeError, RecursionError, OverflowError) as error:
        raise BadInputError(f"A saved measurement is damaged ({type(error).__name__}: {error!s:.200}).") from error


def _read(kind: Any, value: Any) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        names = {field.name for field in dataclasses.fields(kind)}
        if not isinstance(value, dict) or set(value) != names:
            raise ValueError(f"no {kind.__name__}")
        hints = get_type_hints(kind)
        return kind(**{name: _read(hints[name], value[name]) for name in names})
    if origin is tuple:
        if not isinstance(value, list) or (inner[-1] is not Ellipsis and len(value) != len(inner)):
            raise ValueError("no list, or one of another length")
        return tuple(_read(inner[0] if inner[-1] is Ellipsis else inner[i], each) for i, each in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise ValueError("no mapping")
        return {inner[0](key): _read(inner[1], each) for key, each in value.items()}  # JSON's keys are texts
    if origin in (Union, types.UnionType):
        return None if value is None else _read(inner[0], value)
    if origin is Literal:
        if value not in inner:
            raise ValueError(f"none of {inner}")
        return value
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind or (kind is str and len(value) > MAX_TEXT):
        raise ValueError(f"no {kind.__name__}")
    return value
