"""The log of what happens to runs: one line an event, with ids and times, and no text unless whoever hosts asks."""

from __future__ import annotations

import json
import logging

_log = logging.getLogger("miniinfer.runs")

MOST_TEXT = 200


def log_event(
    session_id: str, event: str, run_id: str = "-", *, step: int | None = None, ms: float | None = None,
    text: str | None = None, **facts: int,
) -> None:
    """text: what a person wrote; give it only if the hosting says log_text. It is written as JSON, on the line."""
    if not _log.isEnabledFor(logging.INFO):
        return
    parts = [f"session={session_id[:8]}", f"run={run_id}", f"event={event}"]
    parts += [f"step={step}"] if step is not None else []
    parts += [f"ms={ms:.1f}"] if ms is not None else []
    parts += [f"{name}={value}" for name, value in facts.items()]
    parts += [f"text={json.dumps(text[:MOST_TEXT])}"] if text is not None else []
    _log.info("%s", " ".join(parts))
