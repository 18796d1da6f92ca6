"""The compiled functions that lines of Python called: found by name in those lines, shown as the core's own files have
them. Which of their lines ran nobody can say; that they ran follows from the line that called them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

CALL = re.compile(r"\.(\w+)\(")  # native/library.py: the core's functions without their prefix
INNER = re.compile(r"\bmi_(\w+)\(")  # from one of them to another
# A definition stands at the left; its end is a lone brace.
START = re.compile(r"^(?:template <class N> )?\w[\w ]*\bmi_(\w+)\(")


def called_in(lines: Iterable[str]) -> Iterator[str]:
    """Names of what these lines of Python call on the library, the core's functions (without their prefix) among it."""
    for line in lines:
        yield from CALL.findall(line.partition("library")[2])


@cache
def functions(folder: Path) -> dict[str, tuple[Path, int, tuple[str, ...]]]:
    """name -> (file, number of its first line, its lines) of every function of the core in the folder's C++ files."""
    found = {}
    for file in sorted(folder.glob("*.cpp")):
        lines = file.read_text("utf-8").splitlines()
        for i, line in enumerate(lines):
            if (start := START.match(line)) is not None:
                end = i if line.endswith("}") else lines.index("}", i)
                found[start[1]] = file, i + 1, tuple(lines[i : end + 1])
    return found


def with_inner(folder: Path, names: Iterable[str]) -> list[str]:
    """These functions and, after each, those that it calls in its turn; each once. Unknown names are left out."""
    known, found = functions(folder), dict[str, None]()
    waiting = list(names)
    while waiting:
        name = waiting.pop(0)
        if name in known and name not in found:
            found[name] = None
            waiting = [inner for line in known[name][2][1:] for inner in INNER.findall(line)] + waiting
    return list(found)
