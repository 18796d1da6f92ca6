"""Objects that refer to each other, and to the memory of a cache that nobody needs any more, are looked for in use.

Python looks for them by their number, and an engine with 100 MB of cache is few objects. Streamlit would look after
every answer to anybody, which takes as long as a step when thirty tabs are open: .streamlit/config.toml says no.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from miniinfer.ui.sessions.open_sessions import OpenSessions

EVERY_SECONDS = 10.0


def collect_now_and_then(sessions: OpenSessions) -> None:
    """Begin to look every ten seconds, as long as the process lives and somebody uses it."""
    threading.Thread(target=_watch, args=(sessions,), name="garbage", daemon=True).start()


@contextmanager
def no_garbage_meanwhile() -> Iterator[None]:
    """For an import of a thousand modules: what they make lives for ever, and is not walked again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


def _watch(sessions: OpenSessions) -> None:
    looked = time.monotonic()
    while True:
        time.sleep(EVERY_SECONDS)
        looked = collect_if_used(sessions, looked)


def collect_if_used(sessions: OpenSessions, looked: float) -> float:
    """Look if a session was used since `looked`, on the monotonic clock. The time of the newest look."""
    if sessions.last_used < looked:
        return looked
    now = time.monotonic()
    gc.collect()
    return now
