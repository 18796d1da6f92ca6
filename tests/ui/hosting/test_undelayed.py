"""No answer waits for an acknowledgement of its first half."""

from __future__ import annotations

import asyncio
import os
import socket
import sys

import pytest

from miniinfer.ui.hosting import early
from miniinfer.ui.hosting.undelayed import OPEN_FILES, send_at_once
from tests.ui import asynchronous

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no list of a process's open files")


def listening() -> socket.socket:
    """As Streamlit and uvicorn make it: no protocol named."""
    found = socket.socket(family=socket.AF_INET)
    found.bind(("127.0.0.1", 0))
    found.listen()
    found.setblocking(False)
    return found


async def delays(listener: socket.socket) -> bool:
    """Whether a connection that comes in by it waits, on the server's side."""
    seen: asyncio.Queue[int] = asyncio.Queue()

    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await seen.put(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async with await asyncio.start_server(visit, sock=listener):
        _, writer = await asyncio.open_connection(*listener.getsockname())
        found = await seen.get()
        writer.close()
    return found == 0


def test_connections_come_in_without_the_wait() -> None:
    others = send_at_once()
    with listening() as before, listening() as after:
        assert asynchronous.run(delays(before)), "if asyncio does it by itself one day, undelayed.py can go"
        before.close()
        connected = socket.create_connection(after.getsockname())
        assert send_at_once() == others + 1, "no socket but those that listen"
        connected.close()
        after.accept()[0].close()
        assert not asynchronous.run(delays(after))


def test_it_leaves_nothing_open() -> None:
    with listening():
        before = sorted(os.listdir(OPEN_FILES))
        send_at_once()
        assert sorted(os.listdir(OPEN_FILES)) == before


def test_it_is_done_as_the_server_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early, "_prepare", lambda: None)

    async def start() -> None:
        async with early.from_the_start(None):
            pass

    with listening() as listener:
        asynchronous.run(start())
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
