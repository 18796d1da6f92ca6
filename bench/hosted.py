"""The app as `python3 -m miniinfer run` serves it to a class: guarded, on a free port, with a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from miniinfer.cli.hosting_options import VARIABLE
from miniinfer.errors import MiniInferError
from tests.browser.conftest import ROOT, home_with_models

PHRASE = "measured in class"
NAME = "127.0.0.1"

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


@dataclass(frozen=True)
class Hosted:
    """A running app. log: the file that its standard error goes to."""

    address: str
    log: Path

    def health(self) -> dict[str, Any]:
        with _direct.open(f"{self.address}/health", timeout=30) as answer:
            return dict(json.load(answer))

    def cookie(self) -> str:
        """What a browser gets for the pass phrase."""
        form = urllib.parse.urlencode({"phrase": PHRASE}).encode()
        try:
            urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stay).open(f"{self.address}/enter", form)
        except urllib.error.HTTPError as answer:
            if answer.code == 303:
                return str(answer.headers["set-cookie"]).partition(";")[0]
        raise MiniInferError("The pass phrase was not accepted.")

    def warnings(self) -> list[str]:
        """Lines of the log that are no event of a run: there should be none but those of the start."""
        lines = self.log.read_text("utf-8").splitlines()
        return [line for line in lines if "Traceback" in line or "Error" in line or "WARNING" in line]


@contextmanager
def hosted_app(dtype: str = "float32") -> Iterator[Hosted]:
    """Ends the app by its own process id."""
    with TemporaryDirectory() as folder:
        home, log = Path(folder), Path(folder) / "log"
        environment = os.environ | home_with_models(home) | {VARIABLE: PHRASE}
        options = ["--no-browser", "--port", "0", "--allow-host", NAME, "--dtype", dtype]
        command = [sys.executable, "-m", "miniinfer", "run", *options]
        with log.open("wb") as file:
            app = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file
            )
        try:
            assert app.stdout is not None
            address = app.stdout.readline().decode().strip()
            if not address:
                raise MiniInferError(f"The app did not start: {log.read_text('utf-8').strip()}")
            yield Hosted(address, log)
        finally:
            app.terminate()
            app.wait(30)
            if app.stdout is not None:
                app.stdout.close()
