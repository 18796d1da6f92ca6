"""What stands in front of the whole app: the names it may be called by, and a pass phrase if others can reach it.

It sees every request before Streamlit does, websockets and files too. Until the phrase was given, nothing of the app
is drawn or served.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import html
import logging
import math
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from miniinfer.hosting import Hosting
from miniinfer.passphrase import matches
from miniinfer.ui.hosting import browser_name
from miniinfer.ui.hosting.attempts import Attempts, whose

PAGE = Path(__file__).with_name("gate.html")
COOKIE = "miniinfer_pass"
OPEN = ("/health", "/_stcore/health")  # whether it runs, and how much: nothing private
ENTER = "/enter"
GOOD_FOR_SECONDS = 12 * 3600
MOST_BODY_BYTES = 8192
FOREIGN = "This app is not served under that name; whoever hosts it can allow the name with --allow-host."
ELSEWHERE = "This was asked by a page of another address, and only pages of this app may."
WRONG = "That is not the pass phrase."
_HEADERS = {
    "Cache-Control": "no-store", "Referrer-Policy": "same-origin", "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
}  # fmt: skip

log = logging.getLogger("miniinfer.gate")


class Gate:
    """ASGI middleware. allowed_hosts: names without port; empty means any."""

    def __init__(self, app: ASGIApp, hosting: Hosting, allowed_hosts: Sequence[str]) -> None:
        self._app = app
        self._verifier = hosting.verifier if hosting.guarded else None
        self._allowed = frozenset(name.strip().lower().rstrip(".") for name in allowed_hosts)
        self._key = secrets.token_bytes(32)  # of this process: after a restart the phrase is asked for again
        self._attempts = Attempts()
        self._one_at_a_time = asyncio.Lock()  # each check takes 16 MB and a core
        self._page = PAGE.read_text("utf-8")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if not self._is_ours(headers.get("host")):
            await _refuse(scope, receive, send, PlainTextResponse(FOREIGN, 403))
        elif not _is_from_here(scope, headers):
            await _refuse(scope, receive, send, PlainTextResponse(ELSEWHERE, 403))
        elif self._verifier is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http" and scope["path"] == ENTER:
            answer = await self._enter(Request(scope, receive)) if scope["method"] == "POST" else RedirectResponse("/")
            await answer(scope, receive, send)
        elif scope["path"] in OPEN or self._is_admitted(headers):
            await self._app(scope, receive, send)
        else:
            query = scope["query_string"].decode("latin-1")
            await _refuse(scope, receive, send, self._ask(scope["path"] + (f"?{query}" if query else "")))

    def _is_ours(self, host: str | None) -> bool:
        if not self._allowed:
            return True
        try:
            name = urlsplit(f"//{host or ''}").hostname
        except ValueError:
            return False
        return name is not None and name.lower().rstrip(".") in self._allowed

    def _is_admitted(self, headers: Headers) -> bool:
        expires, _, sign = cookie_parser(headers.get("cookie", "")).get(COOKIE, "").partition(".")
        if not (expires.isascii() and expires.isdecimal() and len(expires) < 15):
            return False
        return hmac.compare_digest(sign.encode(), self._sign(expires).encode()) and int(expires) > time.time()

    def _sign(self, expires: str) -> str:
        return hmac.new(self._key, expires.encode(), hashlib.sha256).hexdigest()

    def _ask(self, to: str, said: str = "", status: int = 401) -> Response:
        text = self._page.replace("{said}", html.escape(said)).replace("{next}", html.escape(to))
        return HTMLResponse(text, status, headers=_HEADERS)

    async def _enter(self, request: Request) -> Response:
        """A phrase was given: a cookie and the page that was asked for, or the question again."""
        assert self._verifier is not None
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MOST_BODY_BYTES:
                return self._ask("/", WRONG, 413)
        fields = dict(parse_qsl(body.decode("utf-8", "replace")))
        phrase, to = fields.get("phrase", ""), _own_path(fields.get("next", "/"))
        address = whose(request.client.host if request.client is not None else "")
        async with self._one_at_a_time:  # so that many at once are no way round the wait
            if wait := self._attempts.wait(address):
                said = f"Too many wrong ones from this address: wait {math.ceil(wait)} s and try again."
                return self._ask(to, said, 429)
            if not await asyncio.to_thread(matches, phrase, self._verifier):
                self._attempts.failed(address)
                log.warning("pass phrase refused address=%s", address)
                return self._ask(to, WRONG)
            self._attempts.succeeded(address)
        expires = str(int(time.time()) + GOOD_FOR_SECONDS)
        answer = RedirectResponse(to, 303, headers={"Cache-Control": "no-store"})
        answer.set_cookie(
            COOKIE, f"{expires}.{self._sign(expires)}", max_age=GOOD_FOR_SECONDS, httponly=True, samesite="lax",
            secure=request.url.scheme == "https",
        )
        if not browser_name.is_browser_name(request.cookies.get(browser_name.COOKIE, "")):
            # Before the first page: two tabs that are opened at once are one browser.
            answer.set_cookie(
                browser_name.COOKIE, browser_name.new_browser_name(), max_age=browser_name.GOOD_FOR_SECONDS,
                samesite="strict", secure=request.url.scheme == "https",
            )
        return answer


def _is_from_here(scope: Scope, headers: Headers) -> bool:
    """Whether a page of this very address asks, where it matters: for a websocket, or to change something. A visitor's
    cookie is sent along by pages at other ports of the same machine too. No browser leaves the header out."""
    origin = headers.get("origin")
    if origin is None or (scope["type"] == "http" and scope["method"] in ("GET", "HEAD", "OPTIONS")):
        return True
    try:
        asks, asked = urlsplit(origin), urlsplit(f"//{headers.get('host', '')}")
        port = asks.port or {"http": 80, "https": 443}.get(asks.scheme)
        return asks.hostname is not None and asks.hostname == asked.hostname and asked.port in (None, port)
    except ValueError:
        return False


async def _refuse(scope: Scope, receive: Receive, send: Send, answer: Response) -> None:
    """A websocket that is closed before it was accepted is answered with status 403."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
    else:
        await answer(scope, receive, send)


def _own_path(to: str) -> str:
    """Only paths of this app: `//elsewhere` and `/\\elsewhere` are other hosts to a browser."""
    parts = urlsplit(to) if to.startswith("/") and to[1:2] not in ("/", "\\") and to.isprintable() else None
    return "/" if parts is None or parts.scheme or parts.netloc else to


__all__ = ["COOKIE", "FOREIGN", "Gate"]
