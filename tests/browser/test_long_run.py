"""The bench of a long run's steps at its smallest setting, on the tests' own app: two tabs of a browser by turns."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from bench import long_run
from miniinfer.models.text import load_tokenizer
from tests.bench.test_benches import sane


def test_long_run(chromium: Browser, address: str, model_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_run, "WARM_UP", 0)
    found = sane(long_run.growth(chromium, address, load_tokenizer(model_path)[0], (10, 30), 1))
    for heads in ("rows", "patterns"):
        ratio = found[f"a whole step, 30 tokens : 10, all panels open, heads as {heads}"]
        assert ratio.most == long_run.MOST_GROWTH
    long = found["30 tokens, by turns, heads as rows: whole step"]
    assert long.value > found["by turns, 30 tokens: the model"].value
