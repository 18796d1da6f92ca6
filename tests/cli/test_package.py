"""`from miniinfer import ...`: the public names, loaded on first use."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest

import miniinfer
from miniinfer.cli.bootstrap import project_root


def test_importing_it_needs_nothing_but_python() -> None:
    script = f"import sys; sys.path.insert(0, {str(project_root())!r}); import miniinfer, miniinfer.cli.main; "
    script += "print(miniinfer.SamplingParams().seed, sorted({'torch', 'numpy', 'jinja2'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "0 []\n"


def test_each_public_name_is_there() -> None:
    assert set(miniinfer.__all__) <= set(dir(miniinfer))
    # In a process of its own: a name that was read while a test had something else in its place is kept.
    names = [name for name in miniinfer.__all__ if name != "__version__"]
    script = f"import miniinfer; print(*(getattr(miniinfer, name).__name__ for name in {names}))"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=project_root())
    assert done.stdout.split() == names


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'miniinfer' has no attribute 'Motor'"):
        miniinfer.Motor  # noqa: B018  # reading it is the test


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((project_root() / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert miniinfer.__version__ == project["version"]
