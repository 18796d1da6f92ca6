"""What serve.py hangs around the app: the guard, /health, and the log on stderr."""

from __future__ import annotations

import logging
import sys
import time

import streamlit as st
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from miniinfer.ui.hosting.early import Noticing
from miniinfer.ui.hosting.gate import Gate
from miniinfer.ui.hosting.headers import SecurityHeaders
from miniinfer.ui.hosting.health import health_of
from miniinfer.ui.hosting.hints import Hints
from miniinfer.ui.hosting.hosting import gate_stands, get_hosting
from miniinfer.ui.hosting.scripts import Scripts
from miniinfer.ui.hosting.stay_here import stay_here
from miniinfer.ui.saving.saved_runs import get_saved_runs
from miniinfer.ui.sessions.model_host import get_host

_started = time.monotonic()


def middleware() -> list[Middleware]:
    """Each answer gets its headers, the guard's own too."""
    gate_stands()
    stay_here()
    Hints.prepare()
    Scripts.prepare()
    return [
        Middleware(SecurityHeaders),
        Middleware(Noticing),
        Middleware(Gate, hosting=get_hosting(), allowed_hosts=st.get_option("server.allowedHosts")),
        Middleware(Scripts),
        Middleware(Hints),
    ]


def routes() -> list[BaseRoute]:
    return [Route("/health", _health, methods=["GET"])]


async def _health(request: Request) -> JSONResponse:
    facts = health_of(get_host(), time.monotonic() - _started, saving=get_saved_runs().problem is None)
    return JSONResponse(facts, 503 if facts["status"] == "failed" else 200, headers={"Cache-Control": "no-store"})


def start_log() -> None:
    """One line an event, to stderr. Without this (under a plain `streamlit run app.py`) there is no log."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(message)s"))
    log = logging.getLogger("miniinfer")
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False
