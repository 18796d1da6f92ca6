"""Before a subcommand runs: have the pinned packages, in this interpreter or in the project's `.venv`.

Standard library only, since nothing may be installed yet.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from miniinfer.cli.environment import Environment
from miniinfer.cli.hand_over import hand_over
from miniinfer.cli.requirements import Requirements, read
from miniinfer.errors import MiniInferError

RUN_FILES = ("requirements.txt",)
TEST_FILES = ("requirements.txt", "requirements-test.txt")
# What the packages take on disk with the smallest build of torch, pip's downloads included.
LEAST_FREE_BYTES = 1_900_000_000


def project_root() -> Path:
    """The project folder: the one that holds this package, the requirements and app.py."""
    return Path(__file__).resolve().parents[2]


def wanted(root: Path, files: Sequence[str]) -> Requirements:
    """What the named requirements files ask for together. Raises MiniInferError if one is not there."""
    parts = []
    for name in files:
        if not (root / name).is_file():
            raise MiniInferError(
                f"{name} is not in {root}; start MiniInfer from a clone of the whole project."
            )
        parts.append(read(root / name))
    return Requirements(tuple(pin for part in parts for pin in part.pins), any(part.editable for part in parts))


def ensure(arguments: Sequence[str], files: Sequence[str] = RUN_FILES) -> None:
    """Return if the running interpreter has all that `files` ask for; else start again as `arguments` in `.venv`.

    `.venv` is made, filled or repaired first, if it must be; nothing is asked of the network when it is complete.
    Raises MiniInferError: no network, no space, no venv module, a folder that cannot be written.
    """
    root = project_root()
    requirements = wanted(root, files)
    environment = Environment(root)
    missing = environment.unmet(requirements) if _inside(environment) else requirements.unmet(root, sys.path)
    if missing is None:
        return
    environment.prepare(requirements, files, LEAST_FREE_BYTES)
    variables = dict(os.environ)
    # macOS: tells a framework build which Python started it, and would lead .venv's Python astray.
    variables.pop("__PYVENV_LAUNCHER__", None)
    hand_over([str(environment.python), "-m", "miniinfer", *arguments], variables)


def _inside(environment: Environment) -> bool:
    """Whether the running interpreter is the environment's own."""
    return environment.folder.exists() and os.path.samefile(sys.prefix, environment.folder)
