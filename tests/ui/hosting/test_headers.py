"""What every answer of the server says the page may load and run."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from miniinfer.ui.hosting.headers import INDEX, SecurityHeaders, content_security_policy
from tests.ui import asynchronous


def answer(scope_type: str, own: list[tuple[bytes, bytes]]) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": f"{scope_type}.response.start", "status": 200, "headers": own})
        await send({"type": f"{scope_type}.response.body", "body": b"x"})

    async def send(message: Any) -> None:
        sent.append(message)

    asynchronous.run(SecurityHeaders(app)({"type": scope_type}, None, send))  # type: ignore[arg-type]
    return sent


def test_each_answer_carries_the_policy_once() -> None:
    start, body = answer("http", [(b"Content-Type", b"text/html")])
    headers = dict(start["headers"])
    assert headers[b"content-security-policy"].decode() == content_security_policy()
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert headers[b"Content-Type"] == b"text/html"
    assert body == {"type": "http.response.body", "body": b"x"}
    stricter = [(b"Content-Security-Policy", b"default-src 'none'")]
    assert [h for h in answer("http", stricter)[0]["headers"] if h[0].lower() == stricter[0][0].lower()] == stricter
    assert answer("websocket", [])[0]["headers"] == []


def test_nothing_from_elsewhere_and_no_script_in_markup_but_streamlits_own() -> None:
    policy = dict(part.split(" ", 1) for part in content_security_policy().split("; "))
    assert policy["default-src"] == "'self'"
    assert not any("http" in value or "*" in value for value in policy.values())
    scripts = policy["script-src"].split()
    page = INDEX.read_text("utf-8")
    inline = [part.split("</script>")[0] for part in page.split("<script>")[1:]]
    expected = [f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'" for code in inline]
    assert inline
    assert scripts == ["'self'", *expected], "neither unsafe-inline nor unsafe-eval"
