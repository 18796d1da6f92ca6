"""Running subcommands: as a process of their own, or in this one with the model that the tests share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from miniinfer.cli import bootstrap, loading
from miniinfer.cli.main import main

if TYPE_CHECKING:
    from miniinfer.models.loader import LoadedModel

Result = tuple[int, str, str]  # exit status, stdout, stderr
Run = Callable[..., Result]


@pytest.fixture(scope="session")
def process() -> Run:
    """Run `python -m miniinfer ARGUMENTS` from the project's folder."""

    def run(*arguments: str) -> Result:
        done = subprocess.run(
            [sys.executable, "-m", "miniinfer", *arguments], cwd=bootstrap.project_root(), capture_output=True,
            encoding="utf-8", timeout=120, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def command(model: LoadedModel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `main(ARGUMENTS)` here, with the shared model in place of one that is loaded."""
    monkeypatch.setattr(loading, "load", lambda options: model)
    monkeypatch.setattr(bootstrap, "ensure", lambda arguments, files: None)

    def run(*arguments: str) -> Result:
        status = main(arguments)
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return run
