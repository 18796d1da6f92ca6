"""The first page goes first: an import waits for it, module by module, and never for ever."""

from __future__ import annotations

import builtins
import importlib
import sys
import threading
from pathlib import Path

import pytest

from miniinfer.ui.sessions import page_first
from miniinfer.ui.sessions.page_first import PageFirst


@pytest.fixture
def first(monkeypatch) -> PageFirst:
    monkeypatch.setattr(page_first, "MOST_SECONDS", 60.0)
    monkeypatch.setattr(page_first, "PAUSE_SECONDS", 0.0)
    return PageFirst()


def test_nobody_waits_for_a_page_that_nobody_asked_for(first: PageFirst) -> None:
    assert not first.is_told
    assert not first.needs_the_interpreter()


def test_from_the_first_request_until_the_page_is_drawn(first: PageFirst) -> None:
    first.asked(page=False)
    first.answered()
    assert first.is_told
    assert first.needs_the_interpreter(), "the browser is about to ask for more"
    first.asked(page=True)
    assert first.needs_the_interpreter()
    first.drawn()
    assert not first.needs_the_interpreter()
    first.asked(page=False)
    assert first.needs_the_interpreter(), "a script of a component, say"
    first.answered()
    assert not first.needs_the_interpreter()


def test_an_answer_is_followed_by_a_pause(first: PageFirst, monkeypatch) -> None:
    monkeypatch.setattr(page_first, "PAUSE_SECONDS", 60.0)
    first.asked(page=True)
    first.drawn()
    assert first.needs_the_interpreter()


def test_a_browser_that_asks_and_never_comes_is_not_waited_for_for_ever(first: PageFirst, monkeypatch) -> None:
    first.asked(page=True)
    monkeypatch.setattr(page_first, "MOST_SECONDS", -1.0)
    first.wait()


def test_an_import_stops_between_two_modules_and_holds_nobody_up(first: PageFirst, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "outer_of_a_test.py").write_text("import inner_of_a_test\n")
    (tmp_path / "inner_of_a_test.py").write_text("")
    (tmp_path / "other_of_a_test.py").write_text("import token\n")
    waits, done = threading.Event(), threading.Event()
    honest = first.wait
    monkeypatch.setattr(first, "wait", lambda: (waits.set(), honest()))

    def load() -> None:
        with first.before_imports():
            import outer_of_a_test  # type: ignore[import-not-found]  # noqa: F401
        done.set()

    first.asked(page=True)
    thread = threading.Thread(target=load)
    thread.start()
    assert waits.wait(30)
    others = threading.Thread(target=importlib.import_module, args=("other_of_a_test",))
    others.start()
    others.join(30)
    assert "other_of_a_test" in sys.modules
    assert "inner_of_a_test" not in sys.modules
    first.drawn()
    assert done.wait(30)
    assert "inner_of_a_test" in sys.modules
    assert builtins.__import__ is before


before = builtins.__import__
