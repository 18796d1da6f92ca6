"""The source of the functions that a stage ran, with the lines that were really executed."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import miniinfer

if TYPE_CHECKING:
    from miniinfer.engine.stage import StageFunction

PACKAGE = Path(miniinfer.__file__).parent
MOST_CALLED = 12  # functions beside the stage's own


@dataclass(frozen=True)
class SourceText:
    """lines: from line number `start` of `file` on (a path inside the package). ran: numbers of lines that ran."""

    name: str
    file: str
    start: int
    lines: tuple[str, ...]
    ran: frozenset[int]


class LineTrace:
    """Watches one call of a stage: which functions of the engine it entered, and which of their lines ran."""

    def __init__(self) -> None:
        self._ran: dict[CodeType, set[int]] = {}

    @contextmanager
    def watching(self, fn: StageFunction) -> Iterator[None]:
        """Around the call. An observer's own calls are left out, as is everything outside the engine and fn's file."""
        self._ran = {fn.__code__: set()}
        folder, own = str(PACKAGE / "engine"), fn.__code__

        def local(frame: FrameType, event: str, arg: Any) -> Any:
            if event == "line":
                self._ran[frame.f_code].add(frame.f_lineno)
            return local

        def enter(frame: FrameType, event: str, arg: Any) -> Any:
            code = frame.f_code
            if not (code is own or code.co_filename.startswith(folder)) or not _below(frame, own):
                return None
            self._ran.setdefault(code, set())
            return local

        before = sys.gettrace()
        sys.settrace(enter)
        try:
            yield
        finally:
            sys.settrace(before)

    def sources(self) -> tuple[SourceText, ...]:
        """The stage's own function first, then the others in the order in which they were entered."""
        inner = {code: ran for code, ran in self._ran.items() if code.co_name.startswith("<")}  # comprehensions
        found = []
        for code, ran in self._ran.items():
            if code not in inner:
                same_file = (lines for other, lines in inner.items() if other.co_filename == code.co_filename)
                found.append(source_of(code, ran.union(*same_file)))
        # A property only gives a number a name.
        return tuple(source for source in found if source.lines[0].strip() != "@property")[: 1 + MOST_CALLED]


def source_of(code: CodeType, ran: set[int]) -> SourceText:
    lines, start = inspect.getsourcelines(code)
    path = Path(code.co_filename)
    file = path.relative_to(PACKAGE.parent).as_posix() if path.is_relative_to(PACKAGE) else path.name
    lines = [line.rstrip("\n") for line in lines]
    inside = frozenset(ran) & frozenset(range(start + 1, start + len(lines)))
    return SourceText(code.co_name, file, start, tuple(lines), inside)


def _below(frame: FrameType, own: CodeType) -> bool:
    """Whether the stage's function is on the stack."""
    at: FrameType | None = frame
    while at is not None:
        if at.f_code is own:
            return True
        at = at.f_back
    return False
