"""What a requirements file asks for, and whether an interpreter has it. Standard library only.

Only the forms the project's own files use are read: `name==version`, `-r other file`, `-e .` and comments. The check
looks at the names of the `.dist-info` folders instead of importing anything: it takes about a millisecond, so it can
run at every start, and it notices a changed requirements file and a package that was removed or changed by hand.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from miniinfer.errors import MiniInferError

_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9.!+]+)")


@dataclass(frozen=True)
class Requirements:
    """Pinned packages (normal name, version), and whether the project itself must be installed ("-e .")."""

    pins: tuple[tuple[str, str], ...]
    editable: bool

    def unmet(self, root: Path, search: Iterable[str | Path]) -> str | None:
        """The first thing that is missing in the folders `search` (as in sys.path), in words; None if all is there."""
        found, project = installed(search)
        for name, version in self.pins:
            if found.get(name) is None:
                return f"{name} {version} is not installed"
            # A build of one kind is named after its kind: 2.13.0+cpu is 2.13.0.
            if version not in (found[name], found[name].partition("+")[0]):
                return f"{name} is {found[name]} and must be {version}"
        if self.editable and project != root.resolve():
            return "the project itself is not installed"
        return None


def normal_name(name: str) -> str:
    """A package's name as the registry compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read(path: Path) -> Requirements:
    """Read a requirements file and those it names. Raises MiniInferError for a line of another form."""
    pins: list[tuple[str, str]] = []
    editable = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.partition("#")[0].strip()
        pin = _PIN.fullmatch(text)
        if pin:
            pins.append((normal_name(pin[1]), pin[2]))
        elif text.startswith("-r "):
            other = read(path.parent / text[3:].strip())
            pins.extend(other.pins)
            editable = editable or other.editable
        elif text == "-e .":
            editable = True
        elif text:
            raise MiniInferError(f"Line {number} of {path} is not of the form name==version, -r file or -e . : {text}")
    return Requirements(tuple(pins), editable)


def installed(search: Iterable[str | Path]) -> tuple[dict[str, str], Path | None]:
    """Versions by normal name in the folders `search`, and the folder that "-e ." was installed from.

    A package without its RECORD is one whose installation was cut off, and does not count.
    """
    versions: dict[str, str] = {}
    project: Path | None = None
    for folder in search:
        try:
            names = os.listdir(folder)
        except OSError:  # sys.path may name archives and folders that are not there
            continue
        for entry in names:
            name, _, version = entry.removesuffix(".dist-info").partition("-")
            info = Path(folder, entry)
            if not (entry.endswith(".dist-info") and version and (info / "RECORD").is_file()):
                continue
            versions.setdefault(normal_name(name), version)
            if normal_name(name) == "miniinfer":
                project = project or _editable_source(info)
    return versions, project


def _editable_source(info: Path) -> Path | None:
    try:
        direct = json.loads((info / "direct_url.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not direct.get("dir_info", {}).get("editable"):
        return None
    return Path(url2pathname(urlsplit(direct["url"]).path)).resolve()
