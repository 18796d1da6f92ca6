"""The source of the functions that a stage ran, with the lines that were really executed."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import miniinfer
from miniinfer.trace.inside.compiled_source import called_in, functions, with_inner

if TYPE_CHECKING:
    from miniinfer.engine.stage import StageFunction

PACKAGE = Path(miniinfer.__file__).parent
CORE = PACKAGE / "native"
SHOWN = tuple(f"{PACKAGE / folder}{os.sep}" for folder in ("engine", "native"))
MOST_CALLED = 12  # functions beside the stage's own, and the compiled ones


@dataclass(frozen=True)
class SourceText:
    """lines: from line number `start` of `file` on (a path inside the package). ran: numbers of lines that ran, none of
    a compiled function, whose lines are not traced."""

    name: str
    file: str
    start: int
    lines: tuple[str, ...]
    ran: frozenset[int]

    @property
    def compiled(self) -> bool:
        return self.file.endswith(".cpp")

    @property
    def ran_lines(self) -> list[str]:
        return [line for n, line in enumerate(self.lines, self.start) if n in self.ran]


class LineTrace:
    """Watches one call of a stage: which functions of the engine it entered, and which of their lines ran."""

    def __init__(self) -> None:
        self._ran: dict[CodeType, set[int]] = {}

    @contextmanager
    def watching(self, fn: StageFunction) -> Iterator[None]:
        """Around the call. An observer's own calls are left out, as is all that neither the engine nor its compiled
        twin runs."""
        own = fn.__code__
        self._ran = {own: set()}
        self._ran.setdefault(inspect.unwrap(fn).__code__, set())  # what a captured graph does is not run by Python

        def local(frame: FrameType, event: str, arg: Any) -> Any:
            if event == "line":
                self._ran[frame.f_code].add(frame.f_lineno)
            return local

        def enter(frame: FrameType, event: str, arg: Any) -> Any:
            code = frame.f_code
            if not (code is own or code.co_filename.startswith(SHOWN)) or not _below(frame, own):
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
        """The stage's own function first, then those of the engine in the order in which they were entered, then those
        that stand around the compiled core, and what of it they called."""
        inner = {code: ran for code, ran in self._ran.items() if code.co_name.startswith("<")}  # comprehensions
        found = []
        for code, ran in self._ran.items():
            if code not in inner:
                same_file = (lines for other, lines in inner.items() if other.co_filename == code.co_filename)
                found.append(source_of(code, ran.union(*same_file)))
        # A property only gives a number a name.
        own, *others = (source for source in found if source.lines[0].strip() != "@property")
        python = [own, *sorted(others, key=lambda source: "/native/" in source.file)[:MOST_CALLED]]
        called = called_in(line for source in python for line in source.ran_lines)
        return (*python, *map(_compiled, with_inner(CORE, called)))


def _compiled(name: str) -> SourceText:
    file, start, lines = functions(CORE)[name]
    return SourceText(f"mi_{name}", file.relative_to(PACKAGE.parent).as_posix(), start, lines, frozenset())


def source_of(code: CodeType, ran: set[int]) -> SourceText:
    lines, start = inspect.getsourcelines(code)
    path = Path(code.co_filename)
    file = path.relative_to(PACKAGE.parent).as_posix() if path.is_relative_to(PACKAGE) else path.name
    lines = [line.rstrip("\n") for line in lines]
    inside = frozenset(ran) & frozenset(range(start + 1, start + len(lines)))
    name = code.co_qualname.rpartition("<locals>.")[2]  # Linear.__call__
    return SourceText(name, file, start, tuple(lines), inside)


def _below(frame: FrameType, own: CodeType) -> bool:
    """Whether the stage's function is on the stack."""
    at: FrameType | None = frame
    while at is not None:
        if at.f_code is own:
            return True
        at = at.f_back
    return False
