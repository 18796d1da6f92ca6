"""Reading a JSON file of a model folder without trusting it."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any, NoReturn

from miniinfer.errors import ModelFileError

MAX_JSON_BYTES = 128 << 20  # four times the largest tokenizer.json in use
MAX_VALUES = 3_000_000  # a text of nothing but "[]," becomes thirty times as large in memory


def read_json_object(path: Path) -> dict[str, Any]:
    """Raises ModelFileError if the file is missing, too large, or holds no JSON object."""
    name = f"{path.parent.name}/{path.name}"
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise ModelFileError(f"{name} has more than {MAX_JSON_BYTES >> 20} MiB, which no such file needs.")
        return parse_json_object(path.read_bytes())
    except FileNotFoundError:
        raise ModelFileError(f"{name} is missing: a Hugging Face folder needs it.") from None
    except OSError as error:
        raise ModelFileError(f"{name} cannot be read ({error.strerror or error}).") from error
    except (ValueError, RecursionError) as error:  # what is no JSON, no UTF-8, or nested without end
        raise ModelFileError(f"{name} is not valid JSON ({error}): fetch it again.") from error


def parse_json_object(raw: bytes) -> dict[str, Any]:
    """Raises ValueError or RecursionError, with a reason, for what is no JSON object or far too many values."""
    if sum(raw.count(mark) for mark in (b",", b"[", b"{")) > MAX_VALUES:
        raise ValueError(f"more than {MAX_VALUES:,} values")
    collects = gc.isenabled()
    gc.disable()  # a text of many lists has it look through all of them again and again: ten times the whole work
    try:
        value = json.loads(raw, parse_constant=_refuse_constant)
    finally:
        if collects:
            gc.enable()
    if not isinstance(value, dict):
        raise ValueError("no JSON object")
    return value


def read_optional_json_object(path: Path) -> dict[str, Any]:
    """The same, {} if there is no such file."""
    return read_json_object(path) if path.exists() else {}


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")
