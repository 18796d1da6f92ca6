"""What the server does from its start on, before anybody has come: import what draws the first page, load the model."""

from __future__ import annotations

import gc
import importlib
import logging
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from miniinfer.engine.preload import preload
from miniinfer.ui.hosting.undelayed import send_at_once
from miniinfer.ui.sessions.model_host import get_host
from miniinfer.ui.sessions.page_first import PAGE_FIRST, SWITCH_SECONDS, PageFirst

log = logging.getLogger(__name__)
# What app.py and the first page import: without this it is imported while the browser waits for the page.
FIRST_PAGE = (
    "miniinfer.ui.address", "miniinfer.ui.frame", "miniinfer.ui.hosting.door", "miniinfer.ui.pages",
    "miniinfer.ui.side_panel", "miniinfer.ui.workspace",
)  # fmt: skip
LATER = ("pandas", "pyarrow")  # of the other pages, some of which would take a third of a second longer at first


class Noticing:
    """ASGI middleware: tells of every request."""

    def __init__(self, app: ASGIApp, page_first: PageFirst = PAGE_FIRST) -> None:
        self._app, self._page_first = app, page_first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            self._page_first.asked(page=True)
            await self._app(scope, receive, send)
        elif scope["type"] == "http" and not scope["path"].endswith("/health"):  # whether it runs is no visit
            self._page_first.asked(page=False)
            try:
                await self._app(scope, receive, send)
            finally:
                self._page_first.answered()
        else:
            await self._app(scope, receive, send)


@asynccontextmanager
async def from_the_start(app: Any) -> AsyncIterator[None]:
    """A lifespan of the server."""
    send_at_once()
    threading.Thread(target=_prepare, name="early-start", daemon=True).start()
    yield


def _prepare() -> None:
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()  # what there is by now lives as long as the server: it is not looked through when a page is wanted
    preload()
    try:
        for name in FIRST_PAGE:
            importlib.import_module(name)
    except Exception:  # the page imports them again, and says what is wrong
        log.exception("The first page could not be prepared")
    loading = get_host().load_early()
    if loading is not None:
        loading.join()
    for name in LATER:
        importlib.import_module(name)
