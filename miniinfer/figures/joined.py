"""Small browser files joined to one text: for components as they are served, and for pages that fetch nothing."""

from __future__ import annotations

import os
import re
from pathlib import Path

_IMPORT = re.compile(
    r'^import\s+(?:(?P<what>\{[^}]*\}|\*\s+as\s+\w+)\s+from\s+)?"(?P<path>[^"]+)";[^\n]*\n', re.MULTILINE
)
_EXPORT = re.compile(
    r"^export\s+(?P<default>default\s+)?(?P<kind>(?:async\s+)?function\*?|class|const)\s+(?P<name>\w+)", re.MULTILINE
)
_STYLE_IMPORT = re.compile(r'^@import url\("([^"]+)"\);[^\n]*\n', re.MULTILINE)


def joined_scripts(root: Path, entry: str) -> str:
    """One script that does what the module `entry` (relative to root) and all that it imports do; `$[entry]` has its
    exports.

    Each file is a function that is called once, after those that it imports. Raises ValueError for what this cannot
    join: files that import each other, and imports and exports of other forms than ours.
    """
    done: list[str] = []
    texts: list[str] = []

    def add(path: str, within: tuple[str, ...]) -> None:
        if path in within:
            raise ValueError(f"{' imports '.join([*within, path])}: files that import each other cannot be joined.")
        if path in done:
            return
        source = (root / path).read_text(encoding="utf-8")
        for found in _IMPORT.finditer(source):
            add(_beside(path, found["path"]), (*within, path))
        done.append(path)
        texts.append(_as_function(path, source))

    add(entry, ())
    return "const $ = {};\n" + "".join(texts)


def _as_function(path: str, source: str) -> str:
    def taken(found: re.Match[str]) -> str:
        if found["what"] is None:
            return ""
        module = f'$["{_beside(path, found["path"])}"]'
        if found["what"].startswith("*"):
            return f"const {found['what'].split()[-1]} = {module};\n"
        names = re.sub(r"\s+as\s+", ": ", found["what"])
        return f"const {names} = {module};\n"

    given = [f"default: {e['name']}" if e["default"] else e["name"] for e in _EXPORT.finditer(source)]
    body = _EXPORT.sub(lambda e: f"{e['kind']} {e['name']}", _IMPORT.sub(taken, source))
    left = re.search(r"^(import|export)\b.*|\bimport\(", body, re.MULTILINE)
    if left:
        raise ValueError(f"{path}: “{left[0]}” cannot be joined; write it as the other files do.")
    return f'$["{path}"] = (() => {{\n{body}return {{ {", ".join(given)} }};\n}})();\n'


def joined_styles(root: Path, entry: str) -> str:
    """The style sheet `entry` (relative to root), with those that it imports in their places."""
    source = (root / entry).read_text(encoding="utf-8")
    return _STYLE_IMPORT.sub(lambda found: joined_styles(root, _beside(entry, found[1])), source)


def _beside(path: str, target: str) -> str:
    return os.path.normpath(Path(path).parent / target).replace(os.sep, "/")
