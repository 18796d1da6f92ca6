"""Thread settings: set before torch, never over what the user wants, and within what a container allows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from miniinfer.engine import threads


def test_what_the_user_has_set_stays() -> None:
    for waiting in ({"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "3"}):
        mine = {**waiting, "OMP_NUM_THREADS": "7", "THP_MEM_ALLOC_ENABLE": "0"}
        environ = dict(mine)
        threads.configure(environ)
        assert environ == mine


def test_torch_is_asked_for_large_pages() -> None:
    environ: dict[str, str] = {}
    threads.configure(environ)
    assert environ["THP_MEM_ALLOC_ENABLE"] == "1"


def test_it_comes_before_torch_and_reaches_openmp() -> None:
    code = (
        "import sys; from miniinfer.engine import threads; threads.configure(); assert 'torch' not in sys.modules\n"
        "import torch; torch.ones(9)"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    shown = {**clean, "OMP_DISPLAY_ENV": "verbose"}  # OpenMP says on stderr what it has read
    found = subprocess.run([sys.executable, "-c", code], env=shown, capture_output=True, text=True, check=True)
    if "GOMP_SPINCOUNT" in found.stderr:  # not on systems where torch brings another OpenMP
        assert "GOMP_SPINCOUNT = '10000'" in found.stderr


@pytest.mark.parametrize(
    ("text", "cores"), [("max 100000", None), ("150000 100000", 1), ("50000 100000", 1), ("99900000 100000", None)]
)
def test_a_container_may_allow_fewer_cores(text: str, cores: int | None, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    quota = tmp_path / "cpu.max"
    quota.write_text(text + "\n")
    assert threads.allowed_cores(quota) == cores
    assert threads.allowed_cores(tmp_path / "nothing here") is None


@pytest.mark.parametrize(
    ("cores", "allowed", "left"), [(8, None, "7"), (8, 4, "3"), (2, None, "1"), (1, None, "1")]
)
def test_a_core_can_be_left_to_the_rest_of_the_app(cores, allowed, left, monkeypatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(threads, "allowed_cores", lambda: allowed)
    environ: dict[str, str] = {}
    threads.configure(environ, spare=1)
    assert environ["OMP_NUM_THREADS"] == left
