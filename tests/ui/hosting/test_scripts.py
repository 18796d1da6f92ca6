"""Streamlit's scripts of the first page from memory: the same bytes as from Streamlit, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from miniinfer.ui.hosting.hints import STATIC, element_scripts
from miniinfer.ui.hosting.scripts import Scripts
from tests.ui import asynchronous


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scripts, "kept", {})
    Scripts.prepare()


def answer(path: str, method: str = "GET", kind: str = "http", headers: tuple[Any, ...] = ()) -> list[dict[str, Any]]:
    """What was sent; nothing if the app behind was asked in its place."""
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert not sent

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": kind, "method": method, "path": path, "headers": list(headers)}
    asynchronous.run(Scripts(app)(scope, None, send))  # type: ignore[arg-type]
    return sent


def test_each_script_is_the_file(prepared: None) -> None:
    for name in element_scripts():
        start, body = answer(f"/static/js/{name}")
        headers = dict(start["headers"])
        assert body["body"] == (STATIC / "static" / "js" / name).read_bytes()
        assert (start["status"], headers[b"content-type"]) == (200, b"text/javascript; charset=utf-8")
        assert int(headers[b"content-length"]) == len(body["body"])
        assert b"immutable" in headers[b"cache-control"]


def test_anything_else_is_left_to_streamlit(prepared: None) -> None:
    path = f"/static/js/{element_scripts()[0]}"
    assert answer(path)
    assert not answer(path, method="HEAD")
    assert not answer(path, kind="websocket")
    assert not answer(path, headers=((b"range", b"bytes=0-9"),))
    for other in ("/static/js/../index.html", "/static/js/", "/", f"/x{path}", "/static/js/none.js"):
        assert not answer(other), other
