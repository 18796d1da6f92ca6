"""The interface bench at its smallest setting: real events in a real browser, each a new step."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import interface
from tests.bench.test_benches import sane
from tests.ui.asynchronous import in_a_thread


@pytest.mark.browser
def test_interface(model_path: Path) -> None:
    found = sane(in_a_thread(interface.measure, interface.Size(contexts=(24,), events=2, starts=0)))
    moves, live = found["first start: command to a page that moves"], found["first start: command to a live run"]
    assert moves.unit == live.unit == "s"
    assert moves.value < live.value
    assert {"click to painted, 24 tokens", "key to painted, 24 tokens"} <= set(found)
    assert "2 events at " in found["key to painted, 24 tokens"].note
