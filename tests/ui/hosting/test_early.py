"""What the server does before anybody has come."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from miniinfer.engine.preload import LIBRARY
from miniinfer.ui.hosting import early
from miniinfer.ui.hosting.early import FIRST_PAGE, Noticing
from miniinfer.ui.sessions.page_first import PageFirst
from tests.ui import asynchronous

ROOT = Path(__file__).parents[3]


def test_everything_that_the_first_page_imports_is_imported_early() -> None:
    named = set()
    for script in ("app.py", "pages/workspace.py"):
        for node in ast.walk(ast.parse((ROOT / script).read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                named.add(node.module)
    assert {name for name in named if name.startswith("miniinfer")} == set(FIRST_PAGE)


def request(kind: str, path: str, page_first: PageFirst) -> bool:
    """Whether the app behind the middleware was asked, in whose answer the request was known."""
    seen = []

    async def app(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        seen.append(page_first.is_told)

    asynchronous.run(Noticing(app, page_first)({"type": kind, "path": path}, None, None))  # type: ignore[arg-type]
    assert len(seen) == 1
    return seen[0]


@pytest.mark.parametrize(("kind", "path", "told"), [
    ("http", "/", True), ("websocket", "/_stcore/stream", True), ("http", "/health", False),
    ("http", "/_stcore/health", False), ("lifespan", "", False),
])  # fmt: skip
def test_every_visit_is_noticed_and_no_look_whether_the_app_runs(kind: str, path: str, told: bool) -> None:
    assert request(kind, path, PageFirst()) is told


def test_the_model_is_loaded_and_the_other_pages_prepared(monkeypatch) -> None:
    asked: list[str] = []

    class Host:
        def load_early(self) -> None:
            asked.append("the model")

    monkeypatch.setattr(early, "get_host", Host)
    monkeypatch.setattr(early, "preload", lambda: asked.append("torch"))
    monkeypatch.setattr(early.importlib, "import_module", asked.append)
    early._prepare()
    assert asked == ["torch", *FIRST_PAGE, "the model", *early.LATER]


def test_a_page_that_cannot_be_imported_does_not_keep_the_model_away(monkeypatch, caplog) -> None:
    asked: list[str] = []

    class Host:
        def load_early(self) -> None:
            asked.append("the model")

    def fail(name: str) -> None:
        if name in FIRST_PAGE:
            raise ImportError("a slip")

    monkeypatch.setattr(early, "get_host", Host)
    monkeypatch.setattr(early, "preload", lambda: None)
    monkeypatch.setattr(early.importlib, "import_module", fail)
    early._prepare()
    assert asked == ["the model"]
    assert "a slip" in caplog.text


CODE = """
import sys
from miniinfer.engine.preload import preload
thread = preload()
if thread is not None:
    thread.join()
    with open("/proc/self/maps") as maps:
        assert "NAME" in maps.read(), "not brought in"
assert "torch" not in sys.modules
import torch
assert float((torch.ones(3, 3) @ torch.ones(3, 3)).sum()) == 27
"""


def test_torch_works_after_its_code_was_brought_in() -> None:
    code = CODE.replace("NAME", LIBRARY.name)
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, cwd=ROOT, timeout=120)
