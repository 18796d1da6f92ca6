"""From the command `run` to a page that moves, and to a live run: what is counted begins with the command's process."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page

from bench.report import Figure
from miniinfer.errors import MiniInferError
from miniinfer.models.converted.copies import SUFFIX, switched_off
from tests.browser.conftest import READY, ROOT, home_with_models

MOST_SECONDS = {"moves": 3.0, "live": 5.0}
COPY_SECONDS = 60.0


@dataclass(frozen=True)
class Start:
    """Seconds from the start of the command."""

    address: float  # the app answers, and its address stands on the screen
    moves: float  # the first page is painted, and a key has moved its cursor
    live: float  # the model is ready, and a live run stands in the place of the recorded one


@contextmanager
def typed_run(home: Path) -> Iterator[tuple[str, float]]:
    """`python3 -m miniinfer run` on a free port: its address, and when it was started on the monotonic clock."""
    command = [sys.executable, "-m", "miniinfer", "run", "--no-browser", "--port", "0"]
    environment = os.environ | {"MINIINFER_HOME": str(home)}
    began = time.monotonic()
    app = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    assert app.stdout is not None
    try:
        address = app.stdout.readline().strip()
        if not address:
            raise MiniInferError("The app did not start; the reason stands above.")
        yield address, began
    finally:
        app.terminate()
        app.wait(30)
        app.stdout.close()


def own_home(folder: Path) -> Path:
    """A data folder with the model and the compiled core of this user, and with no converted weights."""
    home_with_models(folder)
    (folder / "converted").unlink(missing_ok=True)
    return folder


def visit(page: Page, address: str, began: float) -> Start:
    """The first visit of a server that was just started."""
    reached = time.monotonic()
    page.goto(address, wait_until="commit")
    page.get_by_test_id("token-0").wait_for(timeout=READY)
    step = page.get_by_test_id("transport-step")
    before = step.inner_text()
    page.keyboard.press("ArrowRight")
    moved = page.get_by_test_id("transport-step").filter(has_not_text=before)
    moved.wait_for(timeout=READY)
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    moves = time.monotonic()
    page.get_by_test_id("transport-recorded").wait_for(state="hidden", timeout=READY)
    return Start(reached - began, moves - began, time.monotonic() - began)


def one_start(browser: Browser, home: Path) -> Start:
    """In a browser that runs already, with nothing of the app in its cache."""
    with typed_run(home) as (address, began):
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        found = visit(context.new_page(), address, began)
        context.close()
        _wait_for_the_copy(home)
    return found


def _wait_for_the_copy(home: Path) -> None:
    """Of the converted weights, which the first start makes in the background."""
    limit = time.monotonic() + COPY_SECONDS
    while not switched_off() and not list((home / "converted").glob(f"*{SUFFIX}")):
        if time.monotonic() > limit:
            raise MiniInferError(f"No copy of the converted weights was made within {COPY_SECONDS:.0f} s.")
        time.sleep(0.2)


def start_figures(first: Start, later: list[Start]) -> list[Figure]:
    """first: without a copy of the converted weights; later: with it, medians."""
    figures = [
        Figure("first start: command to a page that moves", first.moves, "s", note=f"address {first.address:.2f} s"),
        Figure("first start: command to a live run", first.live, "s", note="the weights are converted"),
    ]
    if later:
        address, moves, live = (sorted(values) for values in zip(*map(astuple, later), strict=True))
        note = f"median of {len(later)}; address {statistics.median(address):.2f} s"
        figures += [
            _median("command to a page that moves", moves, MOST_SECONDS["moves"], note),
            _median("command to a live run", live, MOST_SECONDS["live"], "the model is ready a little sooner"),
        ]
    return figures


def _median(name: str, ranked: list[float], most: float, note: str) -> Figure:
    return Figure(name, statistics.median(ranked), "s", most, p90=ranked[int(0.9 * len(ranked))], note=note)
