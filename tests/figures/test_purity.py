"""A figure is a pure function of a frozen trace and a frozen selection, so figures/ needs neither engine nor screen."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import miniinfer

PACKAGE = Path(miniinfer.__file__).parent
ALLOWED = {
    "engine": {"engine"},
    "models": {"models", "engine"},
    "tokenization": {"tokenization", "models"},
    "trace": {"trace", "engine"},
    "measure": {"measure", "engine"},
    "faults": {"faults", "engine"},
    "native": {"native", "engine", "models"},
    "store": {"store"},
    "figures": {"figures", "trace", "measure", "tokenization"},
    "ui": {"ui", "figures", "trace", "measure", "faults", "tokenization", "models", "native", "engine", "store"},
    "cli": {"cli", "figures", "trace", "measure", "faults", "models", "native", "engine"},
}
LEAVES = {"checks", "config", "errors", "free_memory", "hosting", "passphrase", "provenance", "strangers"}


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize("part", sorted(ALLOWED))
def test_parts_import_only_what_they_may(part):
    for path in (PACKAGE / part).rglob("*.py"):
        inner = {n.split(".")[1] for n in imported(path) if n.startswith("miniinfer.")}
        assert inner <= ALLOWED[part] | LEAVES, f"{path.relative_to(PACKAGE)} imports {inner}"


PARTS = ["figures", "engine", "models", "tokenization", "trace", "measure", "faults", "native", "store", "cli"]


@pytest.mark.parametrize("part", PARTS)
def test_only_the_ui_knows_streamlit(part):
    for path in (PACKAGE / part).rglob("*.py"):
        roots = {n.split(".")[0] for n in imported(path)}
        assert "streamlit" not in roots, path
        if part == "figures":
            assert "torch" not in roots, path
            assert not roots & {"random", "time", "datetime"}, path


MODULES = [
    "miniinfer", "miniinfer.figures.workspace", "miniinfer.figures.cost.plots", "miniinfer.figures.cost.tables",
    "miniinfer.trace.live_run", "miniinfer.trace.batch.run", "miniinfer.trace.batch.view",
    "miniinfer.trace.batch.presets", "miniinfer.trace.batch.outcome", "miniinfer.figures.batching.message",
    "miniinfer.figures.batching.tables", "miniinfer.figures.cost.run_times",
]  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_what_draws_the_first_page_does_not_load_torch(module):
    code = f"import sys, {module}; assert 'torch' not in sys.modules and 'streamlit' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
