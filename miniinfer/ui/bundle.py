"""One script and one style sheet a component, put together from its small files.

A browser asks for six files at a time, and each answer waits its turn in a server that is loading a model meanwhile:
seventy small files took half of a first visit. The files stay what is read, edited and tested; this joins them as the
server starts. Where nothing can be written, the component is served file by file, and only slower.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from pathlib import Path

ROOT = Path(__file__).parent / "components"
KEPT_SECONDS = 7 * 24 * 3600
FOLDER = "bundles"  # below ROOT, since Streamlit serves nothing else for a component

_IMPORT = re.compile(
    r'^import\s+(?:(?P<what>\{[^}]*\}|\*\s+as\s+\w+)\s+from\s+)?"(?P<path>[^"]+)";[^\n]*\n', re.MULTILINE
)
_EXPORT = re.compile(
    r"^export\s+(?P<default>default\s+)?(?P<kind>(?:async\s+)?function\*?|class|const)\s+(?P<name>\w+)", re.MULTILINE
)
_STYLE_IMPORT = re.compile(r'^@import url\("([^"]+)"\);[^\n]*\n', re.MULTILINE)


def component_files(name: str) -> tuple[str, str]:
    """Script and style sheet of a component as Streamlit is told of them, relative to ROOT: joined if that can be."""
    script, style = f"{name}/main.js", f"{name}/{name}.css"
    try:
        return _written(name, "js", join_scripts(script)), _written(name, "css", join_styles(style))
    except OSError:
        return script, style


def _written(name: str, kind: str, text: str) -> str:
    """The file of this text, by its hash: one that is there is right, and two processes cannot spoil each other's."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = ROOT / FOLDER / f"{name}-{digest}.{kind}"
    if not path.is_file():
        path.parent.mkdir(exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(path)
        for old in path.parent.glob(f"{name}-*.{kind}"):
            # A server that was started before may still give it out.
            if time.time() - old.stat().st_mtime > KEPT_SECONDS:
                old.unlink(missing_ok=True)
    return f"{FOLDER}/{path.name}"


def join_scripts(entry: str) -> str:
    """One module that does what the module `entry` (relative to ROOT) and all that it imports do.

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
        source = (ROOT / path).read_text(encoding="utf-8")
        for found in _IMPORT.finditer(source):
            add(_beside(path, found["path"]), (*within, path))
        done.append(path)
        texts.append(_as_function(path, source))

    add(entry, ())
    return "const $ = {};\n" + "".join(texts) + f'export default $["{entry}"].default;\n'


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


def join_styles(entry: str) -> str:
    """The style sheet `entry` (relative to ROOT), with those that it imports in their places."""
    source = (ROOT / entry).read_text(encoding="utf-8")
    return _STYLE_IMPORT.sub(lambda found: join_styles(_beside(entry, found[1])), source)


def _beside(path: str, target: str) -> str:
    return os.path.normpath(Path(path).parent / target).replace(os.sep, "/")
