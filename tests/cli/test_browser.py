"""The browser tests need a browser: where it is looked for, and what is said when there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from miniinfer.cli import browser
from miniinfer.errors import BadInputError, MiniInferError


def put_program(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_named_one_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put_program(tmp_path, "chromium")
    named = put_program(tmp_path, "my browser")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(browser.VARIABLE, str(named))
    assert browser.find_chromium() == str(named)


def test_one_on_the_path_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    there = put_program(tmp_path, "google-chrome")
    monkeypatch.delenv(browser.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert browser.find_chromium() == str(there)


def test_a_named_one_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(browser.VARIABLE, str(tmp_path / "nothing"))
    with pytest.raises(BadInputError, match=r"MINIINFER_CHROMIUM names .*nothing, which is not a program"):
        browser.find_chromium()


def test_none_at_all_is_an_error_with_the_ways_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also asks the real Playwright, which finds nothing in an empty folder of browsers."""
    monkeypatch.delenv(browser.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    monkeypatch.setattr(browser, "_usual_places", list)
    with pytest.raises(MiniInferError, match=r"there is none; install it .*playwright install chromium.*CHROMIUM"):
        browser.find_chromium()


def test_playwrights_own_is_taken_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(browser.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(browser, "_usual_places", list)
    monkeypatch.setattr(browser, "_playwrights_own", lambda: os.path.join("its", "own"))
    assert browser.find_chromium() == os.path.join("its", "own")
