"""The end of a session whose tab has gone."""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from miniinfer.ui.sessions.session import Session


def close_soon(session: Session) -> None:
    """In a thread: closing waits for the step that is running, and Streamlit calls this in its event loop."""
    session.leaving = True  # a reload may come before it is closed, and takes its place
    threading.Thread(target=_close, args=(session,), name="session-close", daemon=True).start()


def _close(session: Session) -> None:
    session.close()
    gc.collect()  # what a tab leaves refers to itself; see sessions/garbage.py
