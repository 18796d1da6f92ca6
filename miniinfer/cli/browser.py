"""Finding the browser that the browser tests drive."""

from __future__ import annotations

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from miniinfer.errors import BadInputError, MiniInferError

VARIABLE = "MINIINFER_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium() -> str:
    """The path of a Chromium: the one that MINIINFER_CHROMIUM names, a usual one, or Playwright's own.

    Raises BadInputError if the named one is not there, MiniInferError if there is none at all.
    """
    named = os.environ.get(VARIABLE)
    if named:
        path = shutil.which(named)
        if path is None:
            raise BadInputError(f"{VARIABLE} names {named}, which is not a program; correct it or remove it.")
        return path
    for candidate in (*NAMES, *_usual_places()):
        path = shutil.which(candidate)
        if path is not None:
            return path
    own = _playwrights_own()
    if own is not None:
        return own
    raise MiniInferError(
        "The browser tests need Chromium and there is none; install it (Debian and Ubuntu: apt install chromium), or "
        f"run `{sys.executable} -m playwright install chromium`, or name one in {VARIABLE}."
    )


def _usual_places() -> list[str]:
    if sys.platform == "darwin":
        names = ("Chromium", "Google Chrome")
        return [f"{home}/Applications/{n}.app/Contents/MacOS/{n}" for n in names for home in ("", str(Path.home()))]
    if sys.platform == "win32":
        folders = [os.environ.get(name) for name in ("PROGRAMFILES", "PROGRAMFILES(X86)", "LOCALAPPDATA")]
        return [f"{folder}\\Google\\Chrome\\Application\\chrome.exe" for folder in folders if folder]
    return []


def _playwrights_own() -> str | None:
    def ask() -> str:
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            return playwright.chromium.executable_path

    with ThreadPoolExecutor(1) as thread:  # of its own: Playwright refuses a second one in a thread that has one
        path = thread.submit(ask).result()
    return path if Path(path).is_file() else None
