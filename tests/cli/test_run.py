"""`run`: the real app comes up on this machine, says where, and ends with us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from miniinfer.cli.bootstrap import project_root

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture
def app(model_path: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """`run` in a terminal of its own with an empty home, on any free port."""
    environment = os.environ | {"HOME": str(tmp_path), "MINIINFER_HOME": str(model_path.parent.parent)}
    process = subprocess.Popen(
        [sys.executable, "-m", "miniinfer", "run", "--no-browser", "--port", "0"], cwd=project_root(), env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def address_of(app: subprocess.Popen[str]) -> str:
    assert app.stdout is not None
    return app.stdout.readline().strip()


def answers(address: str) -> bool:
    try:
        with DIRECT.open(f"{address}/_stcore/health", timeout=5) as answer:
            return bool(answer.read() == b"ok")
    except urllib.error.URLError:
        return False


@pytest.mark.parametrize("how", ["Ctrl-C", "SIGTERM"])
def test_it_runs_until_it_is_ended(app: subprocess.Popen[str], how: str) -> None:
    address = address_of(app)
    assert address.startswith("http://127.0.0.1:")
    assert answers(address)
    if how == "Ctrl-C":
        os.killpg(app.pid, signal.SIGINT)  # a terminal sends it to all
    else:
        os.kill(app.pid, signal.SIGTERM)
    out, err = app.communicate(timeout=30)
    assert (app.returncode, out) == (0, "")
    assert "Ctrl-C ends it" in err
    assert "Traceback" not in err
    assert "mail" not in err
    assert not answers(address)


def test_an_app_that_ends_by_itself_is_said(app: subprocess.Popen[str]) -> None:
    """Its own process id is the only child of ours; ending that one ends us, with its status."""
    address = address_of(app)
    children = Path(f"/proc/{app.pid}/task/{app.pid}/children").read_text().split()
    assert len(children) == 1
    os.kill(int(children[0]), signal.SIGKILL)
    app.communicate(timeout=30)
    assert app.returncode != 0
    assert not answers(address)
