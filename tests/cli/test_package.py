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
    named = {name: getattr(miniinfer, name).__name__ for name in miniinfer.__all__ if name != "__version__"}
    assert named == {name: name for name in named}


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'miniinfer' has no attribute 'Motor'"):
        miniinfer.Motor  # noqa: B018  # reading it is the test


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((project_root() / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert miniinfer.__version__ == project["version"]
