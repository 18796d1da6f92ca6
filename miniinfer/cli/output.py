"""Where words go: data to stdout, everything else to stderr. Standard library only."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TextIO

QUIET_SECONDS = 5.0
LINE_ENDS = "\x85\u2028\u2029"  # beside those that JSON escapes anyway


def complain(error: BaseException) -> None:
    """One line on stderr, whatever the text holds."""
    text = " ".join(str(error).split())
    print("miniinfer: " + "".join(c if c.isprintable() else repr(c)[1:-1] for c in text), file=sys.stderr)


def open_closed_streams() -> None:
    """Where the caller closed stdout or stderr (>&-), Python has None: what is written there goes nowhere instead."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (open until the process ends)


def as_utf8(stream: TextIO) -> None:
    """Write UTF-8 with plain line ends, whatever the system's own code page is."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")


def write_json(value: object) -> None:
    """One value on one line of stdout, written out at once; one line also for readers that know Unicode's line ends."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    for end in LINE_ENDS:  # they can stand in strings only
        text = text.replace(end, f"\\u{ord(end):04x}")
    print(text, flush=True)


def close_broken_stdout() -> None:
    """After a failed write: let nothing be written there again when Python ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def plural(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Rows as aligned text; the columns in `right` (by index) are set to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = (cell.rjust(widths[i]) if i in right else cell.ljust(widths[i]) for i, cell in enumerate(row))
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


class ProgressLine:
    """Progress on stderr: one line that changes on a terminal; elsewhere a sentence now and then.

    Used as a context manager, and called with a sentence and the finished share (0..1, or None if it is not known).
    """

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown = ""
        self._shown_at = -QUIET_SECONDS

    def __call__(self, text: str, share: float | None) -> None:
        line = text if share is None else f"{text} {share:4.0%}"
        if self._terminal:
            print(f"\r{line:<{len(self._shown)}}", end="", file=sys.stderr, flush=True)
            self._shown = line
        elif time.monotonic() - self._shown_at >= QUIET_SECONDS:
            print(line, file=sys.stderr, flush=True)
            self._shown_at = time.monotonic()

    def clear(self) -> None:
        """Take the line off a terminal, so that something else can be printed."""
        if self._terminal and self._shown:
            print(f"\r{'':<{len(self._shown)}}\r", end="", file=sys.stderr, flush=True)
            self._shown = ""

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()
