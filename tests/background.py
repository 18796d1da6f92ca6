"""Linter and type checker, started when tests are collected: they take a minute of a core that others leave idle."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHECKS = {"ruff": ["ruff", "check", "."], "mypy": ["mypy"]}

_running: dict[str, subprocess.Popen[str]] = {}


def start() -> None:
    """Start them in the background, behind everything else that wants the processor."""
    behind = ["nice", "-n", "19"] if shutil.which("nice") else []
    for name, command in CHECKS.items():
        _running[name] = subprocess.Popen(
            [*behind, sys.executable, "-m", *command], cwd=ROOT, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip


def result(name: str) -> tuple[int, str]:
    """Exit status, and what was printed. Waits for the end."""
    said, _ = _running[name].communicate(timeout=600)
    return _running[name].returncode, said


def stop() -> None:
    """End what nobody asked for the result of."""
    for process in _running.values():
        if process.poll() is None:
            process.kill()
        process.communicate()
    _running.clear()
