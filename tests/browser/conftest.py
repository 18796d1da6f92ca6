"""The running app in a real Chromium: one server and one browser for all tests, a fresh context (so a session) each."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, WebSocket, expect, sync_playwright

from miniinfer.cli.browser import find_chromium
from miniinfer.models.paths import data_home

ROOT = Path(__file__).parents[2]
APP = ROOT / "serve.py"
# Without these Chromium itself looks for hosts of its maker at every start.
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]
PATIENCE = 30_000  # ms that an expectation waits at most; a busy machine is slow, and no test is about that
READY = 120_000  # ms; the model is loaded within this on a slow, busy machine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def home_with_models(folder: Path) -> dict[str, str]:
    """The environment of an app that keeps its runs in this folder, and finds the models that are on disk already, the
    compiled core and converted weights: else each such app would compile its own while it is tested."""
    for name in ("models", "native", "converted"):
        (data_home() / name).mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(data_home() / name, target_is_directory=True)
    return {"MINIINFER_HOME": str(folder)}


@contextmanager
def running_app(environment: dict[str, str] | None = None, script: Path = APP) -> Iterator[str]:
    """Start the app on a free port of this machine, give its address, end it by its own process id."""
    with app_process(free_port(), environment, script) as (address, _):
        yield address


@contextmanager
def app_process(
    port: int, environment: dict[str, str] | None = None, script: Path = APP
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    command = [
        sys.executable, "-m", "streamlit", "run", str(script), "--server.port", str(port), "--server.headless", "true",
        "--server.address", "127.0.0.1",
    ]
    app = subprocess.Popen(command, cwd=ROOT, env=os.environ | (environment or {}), stdin=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        limit = time.monotonic() + 60
        while True:
            with suppress(OSError), urllib.request.urlopen(f"{address}/_stcore/health", timeout=2) as answer:
                if answer.status == 200:
                    break
            assert app.poll() is None, "the app ended before it answered"
            assert time.monotonic() < limit, "the app did not answer within 60 s"
            time.sleep(0.1)
        yield address, app
    finally:
        app.terminate()
        try:
            app.wait(10)
        except subprocess.TimeoutExpired:
            app.kill()
            app.wait()


@pytest.fixture(scope="session")
def address(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running app; the model file is on disk already, and runs are saved in a folder of the tests' own."""
    with running_app(home_with_models(tmp_path_factory.mktemp("home"))) as url:
        yield url


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    # All tests were over once, and the driver neither answered nor ended: without it the rest goes on.
    patience = threading.Timer(60, end_drivers)
    patience.daemon = True
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
        expect.set_options(timeout=PATIENCE)
        yield browser
        patience.start()
        browser.close()
    patience.cancel()


def end_drivers() -> None:
    """End Playwright's own process, a child of this one, where the system tells of children."""
    for children in Path("/proc/self/task").glob("*/children"):
        for child in children.read_text("utf-8").split():
            with suppress(OSError):
                if b"playwright" in Path("/proc", child, "cmdline").read_bytes():
                    os.kill(int(child), signal.SIGTERM)


def wait_for(page: Page, expression: str, arg: object = None, timeout: float = PATIENCE) -> None:
    """Wait until it is true in the page. Playwright's own wait_for_function looks on by `eval` in the page, which the
    app's Content-Security-Policy forbids."""
    end = time.monotonic() + timeout / 1000
    while not page.evaluate(expression, arg):
        assert time.monotonic() < end, f"never true: {expression}"
        page.wait_for_timeout(50)


class Visit:
    """One browser tab, and everything it did that a test may ask about."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.errors: list[str] = []
        self.hosts: set[str] = set()
        self.sent = 0  # websocket messages
        self.received: list[int] = []  # bytes of websocket messages
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._listen)
        page.on("dialog", lambda dialog: (self.errors.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        page.on("websocket", self._watch)

    def _listen(self, message: ConsoleMessage) -> None:
        # On a deep link Streamlit's page first looks for its server below the page's own path.
        looking_for_server = re.search(r"//[^/]+/\w+/_stcore/", message.location.get("url", ""))
        if message.type == "error" and not looking_for_server:
            self.errors.append(message.text)

    def _watch(self, socket: WebSocket) -> None:
        socket.on("framesent", lambda _: setattr(self, "sent", self.sent + 1))
        socket.on("framereceived", lambda data: self.received.append(len(data)))

    def open(self, path: str = "/", *, live: bool = True) -> Page:
        """Go there; live: wait until the model is loaded and the example has gone live."""
        self.page.goto(self.address + path)
        self.page.get_by_test_id("transport").wait_for(timeout=READY)
        if path == "/":
            self.page.get_by_test_id("token-0").wait_for(timeout=READY)
        if live:
            self.page.get_by_test_id("transport-recorded").wait_for(state="hidden", timeout=READY)
        return self.page

    def expect_step(self, words: str, timeout: int = 30_000) -> None:
        """Wait until the transport says that it stands on `words`, for example "step 3"."""
        expect(self.page.get_by_test_id("transport-step")).to_contain_text(re.compile(rf"^{words}\b"), timeout=timeout)


@pytest.fixture
def visit(chromium: Browser, address: str) -> Iterator[Callable[..., Visit]]:
    """visit(width, height, theme) gives a new tab of its own session. At the end: no error, no foreign request."""
    contexts = []
    visits: list[Visit] = []

    def new(width: int = 1440, height: int = 900, theme: str = "light") -> Visit:
        context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=theme)  # type: ignore[arg-type]
        contexts.append(context)
        visits.append(Visit(context.new_page(), address))
        return visits[-1]

    yield new
    for context in contexts:
        context.close()
    for each in visits:
        assert each.errors == []
        assert each.hosts <= {urlsplit(address).netloc, ""}, "a request left the app's own origin"
