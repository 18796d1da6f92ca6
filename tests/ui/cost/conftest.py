"""A data folder for each test of the cost page."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: object) -> Path:
    """A data folder without a calibration; the model is loaded already."""
    monkeypatch.setenv("MINIINFER_HOME", str(tmp_path))
    return tmp_path
