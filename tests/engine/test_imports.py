"""Who may import whom, asked of a fresh interpreter."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import miniinfer.engine

ENGINE = Path(miniinfer.engine.__file__).parent
ALLOWED = {"miniinfer.config", "miniinfer.errors", "miniinfer.free_memory", "miniinfer.provenance"}


def loaded_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(found.stdout.split())


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_the_engine_needs_neither_screen_nor_plots() -> None:
    modules = [
        ".".join(path.relative_to(ENGINE.parent.parent).with_suffix("").parts) for path in sorted(ENGINE.rglob("*.py"))
    ]
    loaded = loaded_after(f"import {', '.join(modules)}")
    assert "torch" in loaded
    assert not loaded & {"streamlit", "plotly", "pandas", "gguf", "tokenizers"}


@pytest.mark.parametrize("path", sorted(ENGINE.rglob("*.py")), ids=lambda path: path.name)
def test_the_engine_imports_only_itself_and_the_leaves(path: Path) -> None:
    for name in imports_of(path):
        if name.startswith("miniinfer"):
            assert name in ALLOWED or name.startswith("miniinfer.engine"), name


PLAIN = (
    "sequence", "block_pool", "prefix_cache", "policies", "scheduler", "static_scheduler", "finish", "requests",
    "accounts",
)  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_plain_python_stays_plain(name: str) -> None:
    assert "torch" not in (ENGINE / f"{name}.py").read_text(encoding="utf-8")
    assert not loaded_after(f"import miniinfer.engine.{name}") & {"torch", "numpy"}


def test_files_have_one_subject() -> None:
    for path in ENGINE.rglob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 300, path.name
