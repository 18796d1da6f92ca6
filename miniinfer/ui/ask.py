"""What a component asked for, read from untrusted JSON: every field is checked, an odd one counts as absent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from miniinfer.figures.workspace import ExactAsk, HeadAsk, Selection

MAX_DETAILS = 16


@dataclass(frozen=True)
class Ask:
    """One request of the browser, absolute and idempotent. The fields are described in docs/workspace-message.md."""

    number: int = 0
    run_id: str | None = None
    want: int | None = None
    cursor: int | None = None
    force: tuple[int, int] | None = None  # (step, token_id)
    open: str | None = None
    selection: Selection = field(default_factory=Selection)

    @classmethod
    def parse(cls, value: object) -> Ask:
        """Never raises."""
        if not isinstance(value, dict):
            return cls()
        have = value.get("have")
        have = have if isinstance(have, dict) else {}
        force = value.get("force")
        force = force if isinstance(force, dict) else {}
        step, token_id = _whole(force.get("step")), _whole(force.get("token"))
        number = _whole(value.get("n")) or 0
        selection = Selection(
            ask=number,
            have_meta=_whole(have.get("meta")) or 0,
            have_tokens=_whole(have.get("tok")) or 0,
            have_kv=_whole(have.get("kv")) or 0,
            details=_wholes(value.get("details"))[:MAX_DETAILS],
            head=_head(value.get("head")),
            exact=_exact(value.get("exact")),
            row=_whole(value.get("row")),
            probs_from=_whole(value.get("probs")),
        )
        return cls(
            number=number,
            run_id=_text(value.get("run")),
            want=_whole(value.get("want")),
            cursor=_whole(value.get("cursor")),
            force=(step, token_id) if step is not None and token_id is not None else None,
            open=_text(value.get("open")),
            selection=selection,
        )


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None


def _wholes(value: Any) -> tuple[int, ...]:
    return tuple(v for v in value if _whole(v) is not None) if isinstance(value, list) else ()


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= 64 else None


def _head(value: Any) -> HeadAsk | None:
    found = _wholes(value)
    return HeadAsk(*found) if len(found) == 4 == len(value) else None


def _exact(value: Any) -> ExactAsk | None:
    if not isinstance(value, list) or len(value) != 3:
        return None
    layer, head, position = map(_whole, value)
    if layer is None or head is None or (position is None and value[2] is not None):
        return None
    return ExactAsk(layer, head, position)
