"""One script and one style sheet a component, put together from its small files.

A browser asks for six files at a time, and each answer waits its turn in a server that is loading a model meanwhile:
seventy small files took half of a first visit. The files stay what is read, edited and tested; this joins them as the
server starts. Where nothing can be written, the component is served file by file, and only slower.
"""

from __future__ import annotations

import functools
import hashlib
import os
import time
from pathlib import Path

from miniinfer.figures.joined import joined_scripts, joined_styles

ROOT = Path(__file__).parent / "components"
KEPT_SECONDS = 7 * 24 * 3600
FOLDER = "bundles"  # below ROOT, since Streamlit serves nothing else for a component


def component_files(name: str) -> tuple[str, str]:
    """Script and style sheet of a component as Streamlit is told of them, relative to ROOT: joined if that can be."""
    script, style = f"{name}/main.js", f"{name}/{name}.css"
    try:
        return _written(name, "js", join_scripts(script)), _written(name, "css", join_styles(style))
    except OSError:
        return script, style


@functools.cache
def served_files(name: str) -> tuple[str, str]:
    """`component_files`, looked at once in a process."""
    return component_files(name)


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
    """One module that does what the module `entry` (relative to ROOT) and all that it imports do. Raises ValueError for
    what cannot be joined."""
    return joined_scripts(ROOT, entry) + f'export default $["{entry}"].default;\n'


def join_styles(entry: str) -> str:
    """The style sheet `entry` (relative to ROOT), with those that it imports in their places."""
    return joined_styles(ROOT, entry)
