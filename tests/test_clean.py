"""The whole project is clean for its linter and its type checker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHECKS = {"ruff": ["ruff", "check", "."], "mypy": ["mypy"]}


@pytest.mark.parametrize("name", CHECKS)
def test_the_project_is_clean(name):
    command = [sys.executable, "-m", *CHECKS[name]]
    done = subprocess.run(command, cwd=ROOT, text=True, stdin=subprocess.DEVNULL, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
