"""`run`: get the model, start the app on this machine, open the browser, end the app with us."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
import urllib.request
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from miniinfer import hosting
from miniinfer.cli import bootstrap, hosting_options
from miniinfer.cli.arguments import add_device_options, whole
from miniinfer.cli.output import ProgressLine
from miniinfer.cli.port import LAST_PORT, any_free, claimed, require_free
from miniinfer.errors import BadInputError, MiniInferError
from miniinfer.models.fetch import ensure_default_model, looks_right
from miniinfer.models.paths import data_home
from miniinfer.models.registry import DEFAULT_MODEL, MODELS

SUMMARY = "start the app in the browser"
FILES = bootstrap.RUN_FILES
START_SECONDS = 120
POLL_SECONDS = 0.02
STOP_SECONDS = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument("--port", type=whole, default=8501, help="8501 if left out; 0 takes any free one")
    hosting_options.add_arguments(parser)
    add_device_options(parser)


def check(options: argparse.Namespace) -> None:
    """Raises BadInputError: an address for others without what guards it, a port that cannot be; MiniInferError: a
    busy port."""
    hosting_options.check(options)
    if not 0 <= options.port <= LAST_PORT:
        raise BadInputError(f"--port must be from 0 to {LAST_PORT}, not {options.port}.")
    if options.port:
        require_free(options.host, options.port)


def run(options: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM (status 0), or until the app ends by itself (its own status)."""
    with _stop_signals():
        try:
            settings = hosting_options.hosting_of(options)
            if not looks_right(MODELS[DEFAULT_MODEL]):  # if it is not what it looks, the app finds out
                with ProgressLine() as progress:
                    ensure_default_model(progress)
            port = options.port or any_free(options.host)
            with claimed(port, data_home()):
                return _serve(options, port, settings)
        except (KeyboardInterrupt, _Stopped):
            return 0


def _serve(options: argparse.Namespace, port: int, settings: hosting.Hosting) -> int:
    from miniinfer.engine import threads

    threads.configure(spare=int(settings.guarded))  # the app inherits it
    root = bootstrap.project_root()
    host = options.host
    command = [
        sys.executable, "-m", "miniinfer.ui.hosting.launch", "run", str(root / "serve.py"), "--server.address", host,
        "--server.port", str(port), "--server.headless", "true", "--logger.hideWelcomeMessage", "true",
    ]  # fmt: skip
    if settings.guarded:
        for name in hosting_options.allowed_hosts(options):
            command += ["--server.allowedHosts", name]
    environment = os.environ | {hosting.VARIABLE: settings.to_json()}
    if settings.guarded:
        environment = hosting_options.ALLOCATOR | environment
    environment.pop(hosting_options.VARIABLE, None)  # the app knows what the phrase is checked against, not the phrase
    near = hosting_options.reached_at(host)
    address = f"http://[{near}]:{port}" if ":" in near else f"http://{near}:{port}"
    app = subprocess.Popen(command, cwd=root, env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    try:
        _wait_until_healthy(app, address)
        print(address, flush=True)
        print("MiniInfer runs at this address; Ctrl-C ends it.", file=sys.stderr, flush=True)
        if settings.guarded:
            print(hosting_options.said_to_host(options, port), file=sys.stderr, flush=True)
        if not options.no_browser and _has_a_screen():
            webbrowser.open(address)
        return app.wait()
    finally:
        _end(app)


def _wait_until_healthy(app: subprocess.Popen[bytes], address: str) -> None:
    # A proxy that is set for this machine must not be asked about an address on it.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    limit = time.monotonic() + START_SECONDS
    while app.poll() is None:
        question = urllib.request.Request(f"{address}/_stcore/health", headers={"Host": "localhost"})
        with suppress(OSError), direct.open(question, timeout=2) as answer:
            if answer.status == 200:
                return
        if time.monotonic() > limit:
            raise MiniInferError(f"The app did not answer within {START_SECONDS} s; start it again.")
        time.sleep(POLL_SECONDS)
    raise MiniInferError(f"The app ended with status {app.returncode} before it answered; the reason stands above.")


def _end(app: subprocess.Popen[bytes]) -> None:
    """End the app by its own process id; one that does not listen is killed."""
    if app.poll() is None:
        app.terminate()
    try:
        app.wait(STOP_SECONDS)
    except (subprocess.TimeoutExpired, KeyboardInterrupt, _Stopped):
        app.kill()
        app.wait()


def _has_a_screen() -> bool:
    """Whether a window could open; without one, webbrowser would start a text browser over our words."""
    if sys.platform in ("win32", "darwin"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


class _Stopped(BaseException):
    """Raised by SIGTERM and SIGHUP. Not an Exception, so that nothing on the way takes it for an error."""


@contextmanager
def _stop_signals() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise _Stopped

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    # One that is ignored (nohup) stays ignored.
    before = {n: signal.signal(n, stop) for n in numbers if signal.getsignal(n) is not signal.SIG_IGN}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
