"""The batch of a session as it is saved: what was typed, and how far it had come. JSON, every field checked.

Its steps are not kept: a batch is a function of its requests, its settings and what was aborted when, so they are
computed again when it comes back, with the same tokens.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

from miniinfer.checks import array, exactly, mapping, maybe, text, whole
from miniinfer.errors import BadInputError

VERSION = 1
MOST_SETS, MOST_ROWS, MOST_STEPS = 100, 1000, 10**6
MAX_NAME = 200


@dataclass(frozen=True)
class SavedSet:
    """What stands in an editor: rows as they were typed, right or wrong. own: its name, once it was changed."""

    preset: str
    own: str | None
    rows: tuple[dict[str, Any], ...]
    settings: dict[str, Any]


@dataclass(frozen=True)
class SavedProgress:
    """The batch that ran: its requests and settings by field, the model, and its steps. aborted: request -> the number
    of steps after which somebody ended it."""

    name: str
    model: str
    requests: tuple[dict[str, Any], ...]
    settings: dict[str, Any]
    num_steps: int
    aborted: dict[str, int]


@dataclass(frozen=True)
class SavedBatch:
    """session: its key, which stands in the address. sets: those that have a name of their own. run: None before the
    first batch."""

    session: str
    form: SavedSet
    sets: tuple[SavedSet, ...]
    run: SavedProgress | None

    def to_json(self) -> str:
        return json.dumps({"version": VERSION} | dataclasses.asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, data: str) -> SavedBatch:
        """Raises BadInputError, one sentence, for anything that `to_json` could not have written."""
        try:
            value = exactly(json.loads(data), {"version", "session", "form", "sets", "run"})
            if value["version"] != VERSION:
                raise ValueError(f"version {str(value['version'])[:40]!r}, not {VERSION}")
            sets = tuple(_set(each) for each in array(value["sets"], 0, MOST_SETS))
            return cls(text(value["session"], 64), _set(value["form"]), sets, maybe(_progress, value["run"]))
        except (ValueError, TypeError, RecursionError) as error:
            raise BadInputError(f"The saved batch is damaged ({type(error).__name__}: {error!s:.200}).") from error


def _set(value: Any) -> SavedSet:
    fields = exactly(value, {"preset", "own", "rows", "settings"})
    return SavedSet(
        text(fields["preset"], MAX_NAME), maybe(lambda own: text(own, MAX_NAME), fields["own"]),
        tuple(mapping(row) for row in array(fields["rows"], 0, MOST_ROWS)), mapping(fields["settings"]),
    )  # fmt: skip


def _progress(value: Any) -> SavedProgress:
    fields = exactly(value, {"name", "model", "requests", "settings", "num_steps", "aborted"})
    return SavedProgress(
        text(fields["name"], MAX_NAME), text(fields["model"], MAX_NAME),
        tuple(mapping(request) for request in array(fields["requests"], 1, MOST_ROWS)), mapping(fields["settings"]),
        whole(fields["num_steps"], most=MOST_STEPS),
        {name: whole(step, most=MOST_STEPS) for name, step in mapping(fields["aborted"]).items()},
    )  # fmt: skip
