"""`run`: the real app comes up on this machine, says where, and ends with us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from miniinfer.cli.bootstrap import project_root

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(model_path: Path, tmp_path: Path) -> Iterator[Start]:
    """Start `run` with an empty home, on any free port, as a terminal would (a process group of its own)."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str, **variables: str) -> subprocess.Popen[str]:
        environment = os.environ | {"HOME": str(tmp_path), "MINIINFER_HOME": str(model_path.parent.parent)} | variables
        process = subprocess.Popen(
            [sys.executable, "-m", "miniinfer", "run", "--port", "0", *arguments], cwd=project_root(), env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield run
    for process in started:
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
def test_it_runs_until_it_is_ended(start: Start, how: str) -> None:
    app = start("--no-browser")
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


def test_it_ends_when_the_app_does(start: Start) -> None:
    app = start("--no-browser")
    address = address_of(app)
    children = Path(f"/proc/{app.pid}/task/{app.pid}/children").read_text().split()
    assert len(children) == 1
    os.kill(int(children[0]), signal.SIGKILL)
    app.communicate(timeout=30)
    assert app.returncode != 0
    assert not answers(address)


def test_the_browser_is_opened_once_the_app_answers(start: Start, tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    opened = tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" > "{opened}.part"\nmv "{opened}.part" "{opened}"\n')
    browser.chmod(0o755)
    address = address_of(start(BROWSER=str(browser)))
    limit = time.monotonic() + 20
    while not opened.exists() and time.monotonic() < limit:
        time.sleep(0.05)
    assert opened.read_text() == f"{address}\n"


def status_of(address: str, path: str, host: str) -> tuple[int, str]:
    question = urllib.request.Request(address + path, headers={"Host": host})
    try:
        with DIRECT.open(question, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.read().decode()


def test_for_others_it_asks_for_the_phrase_first_and_the_app_never_holds_it(start: Start) -> None:
    app = start(
        "--no-browser", "--host", "0.0.0.0", "--allow-host", "class.test", MINIINFER_PASSPHRASE="only we know this"
    )
    address = address_of(app)
    assert address.startswith("http://127.0.0.1:"), "where this machine reaches it"
    assert answers(address)
    assert status_of(address, "/", "evil.test")[0] == 403
    status, page = status_of(address, "/sampling?s=1", "class.test")
    assert (status, "Pass phrase" in page) == (401, True)
    assert status_of(address, "/_stcore/host-config", "class.test")[0] == 401
    status, facts = status_of(address, "/health", "class.test")
    assert (status, '"status":"ok"' in facts) == (200, True)
    for child in Path(f"/proc/{app.pid}/task/{app.pid}/children").read_text().split():
        for kept in ("environ", "cmdline"):
            assert b"only we know" not in Path(f"/proc/{child}/{kept}").read_bytes()
    os.kill(app.pid, signal.SIGTERM)
    _, err = app.communicate(timeout=30)
    assert "Others reach it as class.test" in err
    assert "only we know" not in err


def test_on_ones_own_machine_nothing_is_asked_and_a_foreign_name_is_refused(start: Start) -> None:
    address = address_of(start("--no-browser"))
    assert status_of(address, "/", "localhost")[0] == 200
    assert status_of(address, "/", "evil.test")[0] == 403
    assert status_of(address, "/health", "localhost")[0] == 200
