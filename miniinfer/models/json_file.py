"""Reading a JSON file of a model folder without trusting it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from miniinfer.errors import ModelFileError
from miniinfer.strangers import parse_json, read_file

MAX_JSON_BYTES = 128 << 20  # four times the largest tokenizer.json in use


def read_json_object(path: Path) -> dict[str, Any]:
    """Raises ModelFileError if the file is missing, too large, or holds no JSON object."""
    name = f"{path.parent.name}/{path.name}"
    try:
        return parse_json_object(read_file(path, MAX_JSON_BYTES))
    except FileNotFoundError:
        raise ModelFileError(f"{name} is missing: a Hugging Face folder needs it.") from None
    except OSError as error:
        raise ModelFileError(f"{name} cannot be read ({error.strerror or error}).") from error
    except (ValueError, RecursionError) as error:  # what is too large, no JSON, no UTF-8, or nested without end
        raise ModelFileError(f"{name} is not valid JSON ({error}): fetch it again.") from error


def parse_json_object(raw: bytes) -> dict[str, Any]:
    """Raises ValueError or RecursionError, with a reason, for what is no JSON object or far too many values."""
    value = parse_json(raw)
    if not isinstance(value, dict):
        raise ValueError("no JSON object")
    return value


def read_optional_json_object(path: Path) -> dict[str, Any]:
    """The same, {} if there is no such file."""
    return read_json_object(path) if path.exists() else {}
