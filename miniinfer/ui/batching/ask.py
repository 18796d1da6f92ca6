"""What the picture of a batch asks for. It comes from a browser, so every field is checked; an odd one is absent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

MAX_STEP = 10**6


@dataclass(frozen=True)
class BatchAsk:
    """want: a step that must exist. have: so many steps are in the browser. abort: place of a request in the run."""

    number: int
    run_id: str | None
    want: int | None
    have: int
    abort: int | None

    @classmethod
    def parse(cls, value: Any) -> Self:
        fields = value if isinstance(value, dict) else {}
        run_id = fields.get("run")
        return cls(
            number=_whole(fields.get("n")) or 0,
            run_id=run_id if isinstance(run_id, str) else None,
            want=_whole(fields.get("want")),
            have=_whole(fields.get("have")) or 0,
            abort=_whole(fields.get("abort")),
        )


def _whole(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_STEP:
        return None
    return value
