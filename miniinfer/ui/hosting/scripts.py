"""Streamlit's scripts of the first page, answered from memory.

A first visit asks for a hundred of them while Python has other things to do. Streamlit's own answers go through a
thread for the file's facts, one for opening it and one for each 64 kB of it; these are two messages each.
"""

from __future__ import annotations

from contextlib import suppress

from starlette.types import ASGIApp, Receive, Scope, Send

from miniinfer.ui.hosting.hints import STATIC, element_scripts

PLACE = "/static/js/"


class Scripts:
    """ASGI middleware: answers a GET for one of them. Anything else, a part of one too, is left to Streamlit."""

    kept: dict[str, bytes] = {}  # noqa: RUF012 - of the process

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    @classmethod
    def prepare(cls) -> None:
        """Before the server listens. What cannot be read is left to Streamlit."""
        with suppress(OSError):
            cls.kept = {PLACE + name: (STATIC / "static" / "js" / name).read_bytes() for name in element_scripts()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = self.kept.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        if body is None or any(name == b"range" for name, _ in scope["headers"]):
            await self._app(scope, receive, send)
            return
        headers = [
            (b"content-type", b"text/javascript; charset=utf-8"), (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"public, immutable, max-age=31536000"),
        ]  # fmt: skip
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
