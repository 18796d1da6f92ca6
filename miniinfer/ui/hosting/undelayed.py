"""Answers go out at once: what this server listens on is told not to wait for the other side's acknowledgement."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress

OPEN_FILES = "/dev/fd"  # of this process, where the system has it


def send_at_once() -> int:
    """Set TCP_NODELAY on every socket that this process listens on; how many there are.

    An answer is two writes, head and body. Without this the system holds the second back until the browser has
    acknowledged the first, and the browser waits 40 ms with that, in the hope of having something to send along.
    asyncio sets the option itself, but only on sockets that were made with the protocol TCP named, and Streamlit and
    uvicorn leave that out. A connection has the options of the socket it came in by. Call before the first one.
    """
    found = 0
    with suppress(OSError):
        for name in os.listdir(OPEN_FILES):
            with suppress(OSError, ValueError):  # the list itself was one of them
                found += _set(int(name))
    return found


def _set(descriptor: int) -> bool:
    """Whether it was one that listens."""
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        return False
    with socket.socket(fileno=os.dup(descriptor)) as each:
        listens = each.family in (socket.AF_INET, socket.AF_INET6) and each.getsockopt(
            socket.SOL_SOCKET, socket.SO_ACCEPTCONN
        )
        if listens:
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return bool(listens)
