"""Headers on every answer of the server: what the page may load and run, should a text ever become markup."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from pathlib import Path

import streamlit
from starlette.types import ASGIApp, Message, Receive, Scope, Send

INDEX = Path(streamlit.__file__).parent / "static" / "index.html"


@functools.cache
def content_security_policy() -> str:
    """The value of Content-Security-Policy.

    Nothing but the app's own origin is asked, no text is evaluated, and no script stands in markup but Streamlit's own,
    which are named by their hashes. Styles in markup are allowed: Streamlit writes its own that way.
    """
    inline = re.findall(r"<script>(.*?)</script>", INDEX.read_text("utf-8"), re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in inline]
    return "; ".join(
        [
            "default-src 'self'",
            " ".join(["script-src 'self'", *(f"'sha256-{value}'" for value in hashes)]),
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",  # pictures that are saved, and those that tables draw their signs from
            "font-src 'self' data:",
            "worker-src 'self' blob:",
            "object-src 'none'",
            "base-uri 'self'",
            "form-action 'self'",
            "frame-ancestors 'self'",
        ]
    )


class SecurityHeaders:
    """ASGI middleware: adds the headers to each HTTP answer, and leaves websockets alone."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.headers = [
            (b"content-security-policy", content_security_policy().encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"same-origin"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", []))
                named = {name.lower() for name, _ in headers}  # a page of its own kind may be stricter
                message = {**message, "headers": headers + [each for each in self.headers if each[0] not in named]}
            await send(message)

        await self.app(scope, receive, send_with_headers)
