"""Who waits for the engine sees how many come first. All sessions share one engine thread and take turns in it."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any

import streamlit as st
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.scriptrunner import add_script_run_ctx, get_script_run_ctx

if TYPE_CHECKING:
    from streamlit.runtime.scriptrunner import ScriptRunContext

    from miniinfer.ui.sessions.session import Session

LOOK_SECONDS = 0.3


def place_text(before: int) -> str:
    """One sentence; empty if it is this session's turn."""
    if not before:
        return ""
    return f"{before} before you: this server computes one step at a time, and everybody takes turns."


class QueuePlace:
    """A line over the page, written while this session waits and gone when its turn has come."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._path: list[int] = []  # where on the page it stands
        self.shown = ""

    def draw(self) -> None:
        """Keep a place for it on the page that is being drawn."""
        with st.container(key="queue_place"):
            slot = st.empty()
        cursor = slot._cursor
        self._path = list(cursor.delta_path) if cursor is not None else []
        self.shown = ""

    def while_waiting(self, future: Future[Any]) -> None:
        """Show it until the future is done. In a thread of its own: in the script's, Streamlit may end the script at
        any line that draws, and what the engine has just made would be lost."""
        context = get_script_run_ctx(suppress_warning=True)
        if context is None or not self._path:
            return  # a background thread waits, and nobody looks at it
        thread = threading.Thread(target=self._show_until, args=(future, context), name="queue-place", daemon=True)
        add_script_run_ctx(thread, context)
        thread.start()
        thread.join()

    def _show_until(self, future: Future[Any], context: ScriptRunContext) -> None:
        while not future.done():
            self._show(place_text(self._session.host.worker.place_of(self._session.session_id)), context)
            wait([future], LOOK_SECONDS)
        self._show("", context)

    def _show(self, text: str, context: ScriptRunContext) -> None:
        """Not by `st.text`: a fragment that waits may not write outside of itself, and this line is of no fragment."""
        if text == self.shown:
            return
        self.shown = text
        message = ForwardMsg()
        if text:
            message.delta.new_element.text.body = text
        else:
            message.delta.new_element.empty.SetInParent()
        message.metadata.delta_path[:] = self._path
        context.enqueue(message)
