"""The interface bench at its smallest setting: real events in a real browser, each a new step."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import interface
from tests.bench.test_benches import sane
from tests.ui.asynchronous import in_a_thread


@pytest.mark.browser
def test_interface(model_path: Path) -> None:
    found = sane(in_a_thread(interface.measure, interface.Size(contexts=(24,), events=2)))
    start = [name for name in found if name.startswith("server start to ")]
    assert [found[name].unit for name in start] == ["s"] * 3
    times = [found[name].value for name in start]
    assert times == sorted(times), "healthy, then painted, then live"
    assert {"click to painted, 24 tokens", "key to painted, 24 tokens"} <= set(found)
    assert "2 events at " in found["key to painted, 24 tokens"].note
