"""A recording as one HTML file: the workspace and its transport, the scripts and all that they draw, no request at all.

The page has the messages that the server would have sent (docs/workspace-message.md), packed; its policy lets it run
its own script, which is named by its hash, and fetch nothing.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import html
import json
import re
import struct
from pathlib import Path
from typing import Any

from miniinfer.errors import BadInputError
from miniinfer.figures.joined import joined_scripts, joined_styles
from miniinfer.figures.workspace import HeadAsk, Selection, Surroundings, encode, run_entry
from miniinfer.trace.files.recorded_run import RecordedRun

COMPONENTS = Path(__file__).parents[1] / "ui" / "components"
READY = {"state": "ready", "text": "", "progress": 1.0}
PLACE = "@" * 12  # the page states its own size, which is known last


def offline_page(run: RecordedRun, cursor: int) -> str:
    """The page, opening at step `cursor`. Raises BadInputError for a run without steps."""
    if not run.steps:
        raise BadInputError("This run has no step yet, so there is nothing to step through: step it once first.")
    script, style = _assets()
    facts = f'{{"bytes": {PLACE}, ' + json.dumps(_facts(run, cursor)).replace("<", "\\u003c")[1:]
    data = base64.b64encode(gzip.compress(_messages(run, cursor), mtime=0)).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{_hash(script)}'; style-src 'sha256-{_hash(style)}'; "
        "img-src blob: data:; base-uri 'none'; form-action 'none'"
    )
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<link rel="icon" href="data:,">\n'
        f"<title>{html.escape(run.info.name)} · MiniInfer</title>\n"
        f"<style>{style}</style>\n</head>\n<body>\n"
        "<noscript>This page is a recorded run, drawn by a script of its own: allow scripts for this file.</noscript>\n"
        '<script type="application/json" id="facts">'
    )
    tail = (
        f'</script>\n<script type="text/plain" id="messages">{data}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )
    size = sum(len(part.encode()) for part in (head, facts, tail))
    return head + facts.replace(PLACE, str(size).rjust(len(PLACE)), 1) + tail


def _facts(run: RecordedRun, cursor: int) -> dict[str, Any]:
    """What the page says of the run beside its panels."""
    info, origin = run.info, run.origin
    entry = run_entry(run)
    return {
        "run": info.run_id, "name": info.name, "prompt": info.prompt, "chat": info.chat, "cursor": cursor,
        "by": origin.by, "at": origin.at, "complete": run.complete, "entry": entry,
        "settings": [
            {name: str(value) for name, value in vars(params).items() if name not in ("stop", "stop_ids", "order")}
            for params in run.settings or (info.params,)
        ],
        "settings_from": _settings_from(run), "model": info.model_name, "device": info.device, "dtype": info.dtype,
        "measured": origin.measured, "prompt_tokens": info.num_prompt_tokens, "steps": len(run.steps),
    }


def _settings_from(run: RecordedRun) -> list[int]:
    """The first step that each of the settings chose in; 0 where none did yet."""
    places = list(run.step_settings) or [0] * len(run.steps)
    return [places.index(i) + 1 if i in places else 0 for i in range(max(1, len(run.settings)))]


def _messages(run: RecordedRun, cursor: int) -> bytes:
    """All steps in one message, then one for each position that is no step's newest; each behind its length."""
    length = run.steps[-1].context_len
    newest = {meta.context_len - 1 for meta in run.steps}
    around = Surroundings((run_entry(run),), READY)
    whole = all(rows is not None for rows in run.pattern)
    head = run.info.default_head if whole else run.head
    first = Selection(
        cursor=cursor, details=tuple(meta.step for meta in run.steps), probs_from=0,
        head=HeadAsk(*head, 0, length) if head is not None else None,
    )
    messages = [encode(run, first, around)]
    for position in range(length):
        if position not in newest and run.next_tokens[position] is not None:
            known = Selection(have_meta=len(run.steps), have_tokens=len(run.tokens), have_kv=length, row=position)
            messages.append(encode(run, known, around))
    return b"".join(struct.pack("<I", len(message)) + message for message in messages)


@functools.cache
def _assets() -> tuple[str, str]:
    script = '"use strict";\n' + joined_scripts(COMPONENTS, "offline/main.js")
    style = joined_styles(COMPONENTS, "offline/offline.css")
    if re.search(r"</script|<!--", script, re.IGNORECASE) or re.search(r"@import|url\(|</style", style, re.IGNORECASE):
        raise ValueError("a script or style of the offline page fetches something, or holds what would end it")
    return script, style


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
