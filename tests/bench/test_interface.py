"""The interface bench at its smallest setting: real events in a real browser, each a new step."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import interface
from tests.bench.test_benches import sane
from tests.ui.asynchronous import in_a_thread


@pytest.mark.browser
def test_interface(model_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interface, "WARM_UP", 1)
    size = interface.Size(modes=("packed",), contexts=(24,), events=2, growth=(10, 30), starts=0)
    found = sane(in_a_thread(interface.measure, size))
    moves, live = found["first start: command to a page that moves"], found["first start: command to a live run"]
    assert moves.unit == live.unit == "s"
    assert moves.value < live.value
    assert {"packed: click to painted, 24 tokens", "packed: key to painted, 24 tokens"} <= set(found)
    assert "2 events at " in found["packed: key to painted, 24 tokens"].note
    whole, part = (found[f"packed: click to painted, 24 tokens{which}"] for which in (", whole step", ""))
    assert whole.value > part.value, "the model's time is in one of them"
    for heads in ("rows", "patterns"):
        ratio = found[f"packed: a whole step, 30 tokens : 10, all panels open, heads as {heads}"]
        assert ratio.most == interface.MOST_GROWTH
    long = found["packed: 30 tokens, by turns, heads as rows: whole step"]
    assert long.value > found["packed: by turns, 30 tokens: the model"].value


def test_the_bars_are_those_of_a_whole_step() -> None:
    seen = [
        {"kind": kind, "start": 10.0, "sent": 11.0, "received": 60.0, "painted": 80.0, "ms": 30.0, "bytes": 9,
         "context": 250} for kind in interface.KINDS
    ]
    for mode, most in (("float32", 100.0), ("packed", 80.0)):
        found = sane(interface.events_figures(250, seen, mode))
        whole = found["click to painted, 250 tokens, whole step"]
        assert (whole.value, whole.most) == (70.0, most)
        assert found["click to painted, 250 tokens"].value == 40.0
