"""Scripts that the browser is told of with the page: those that the first page needs, and nobody else hears of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from miniinfer.ui.hosting.hints import ELEMENTS, STATIC, Hints, element_scripts
from tests.ui import asynchronous


def test_streamlit_has_all_of_these_scripts() -> None:
    """Another version of Streamlit may name them otherwise: then ELEMENTS has to follow."""
    found = element_scripts()
    for name in ELEMENTS:
        assert [script for script in found if script.startswith(f"{name}.")], name
    page = (STATIC / "index.html").read_text("utf-8")
    assert found[0] in page, "the page's own script is wanted first"
    assert len(set(found)) == len(found)


def test_the_page_s_own_scripts_come_first_then_what_an_element_imports(tmp_path: Path) -> None:
    scripts = tmp_path / "static" / "js"
    scripts.mkdir(parents=True)
    (tmp_path / "index.html").write_text('<script type="module" src="./static/js/main.1.js"></script>')
    (scripts / "main.1.js").write_text('import"./shared.2.js";')
    (scripts / "shared.2.js").write_text("")
    (scripts / "Slider.3.js").write_text('import{a as b}from"./shared.2.js";import{c}from"./own.4.js";')
    (scripts / "own.4.js").write_text('import"./Slider.3.js";import"./gone.5.js"')
    assert element_scripts(tmp_path) == ["main.1.js", "shared.2.js", "Slider.3.js", "own.4.js"]


def headers_of(status: int, content_type: bytes, monkeypatch: pytest.MonkeyPatch) -> dict[bytes, bytes]:
    monkeypatch.setattr(Hints, "links", b"<./a.js>; rel=modulepreload")
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", content_type)]})
        await send({"type": "http.response.body", "body": b"x"})

    async def send(message: Any) -> None:
        sent.append(message)

    asynchronous.run(Hints(app)({"type": "http"}, None, send))  # type: ignore[arg-type]
    assert sent[1] == {"type": "http.response.body", "body": b"x"}
    return dict(sent[0]["headers"])


def test_only_a_page_has_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    assert headers_of(200, b"text/html; charset=utf-8", monkeypatch)[b"link"] == Hints.links
    assert b"link" not in headers_of(200, b"text/javascript", monkeypatch)
    assert b"link" not in headers_of(404, b"text/html", monkeypatch)


def test_our_own_components_are_hinted_at_where_streamlit_serves_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hints, "links", b"")
    Hints.prepare()
    links = Hints.links.decode()
    assert links.count("rel=modulepreload") == len(element_scripts()) + 2
    for name in ("transport", "workspace"):
        assert f"<./_stcore/bidi-components/miniinfer.{name}/" in links
