"""A mistake of ours on a page is no stack trace on the screen: that goes to the log."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest


def test_no_stack_trace_on_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).resolve().parents[2])
    found = AppTest.from_string("raise RuntimeError('/home/somebody/secret')", default_timeout=60).run()
    (shown,) = found.exception
    assert "secret" not in shown.message
    assert not shown.stack_trace
