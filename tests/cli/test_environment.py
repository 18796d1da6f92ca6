"""What keeps `.venv` from being made is said in one sentence, with the way out."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from miniinfer.cli.environment import Environment
from miniinfer.cli.requirements import Requirements
from miniinfer.errors import MiniInferError

ONE = Requirements((("tinything", "1.0"),), editable=False)


def test_too_little_space_is_said_before_anything_is_fetched(tmp_path: Path) -> None:
    with pytest.raises(MiniInferError, match=r"at least 1000000.0 GB and the disk of .* free; free some space"):
        Environment(tmp_path).prepare(ONE, ["requirements.txt"], 10**15)
    assert not (tmp_path / ".venv" / "pyvenv.cfg").exists()


def test_a_system_python_without_venv_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Debian and Ubuntu, where it is a package of its own."""
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ensurepip" else found(name))
    with pytest.raises(MiniInferError, match=r"no module ensurepip; install it .*apt install python3-venv"):
        Environment(tmp_path).prepare(ONE, ["requirements.txt"], 0)


@pytest.mark.parametrize(
    ("line", "version"), [("version = 3.12.4", (3, 12)), ("version_info = 3.11.7.final.0", (3, 11))]
)
def test_the_version_of_an_environment(tmp_path: Path, line: str, version: tuple[int, int]) -> None:
    """As the standard venv, and as virtualenv and uv write it."""
    environment = Environment(tmp_path)
    assert environment.version() is None
    environment.python.parent.mkdir(parents=True)
    (environment.folder / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion_not = 2.7\n{line}\n")
    assert environment.version() is None
    environment.python.write_text("")
    assert environment.version() == version
