"""The picture of the batch: one fragment with one component, which asks for steps and for nothing else."""

from __future__ import annotations

import streamlit as st

from miniinfer.ui.batching.ask import BatchAsk
from miniinfer.ui.mount import ask_of, mount_batching
from miniinfer.ui.sessions.session import Session

ASKED = "batching_asked"  # (number, have) of the ask that is being answered


def draw_picture(session: Session, *, follows: bool = False) -> None:
    """On a full run the browser may know nothing, so all steps are sent; after an ask, those that it lacks.

    follows: the page shows what a step changes elsewhere too, so an ask draws all of it anew. Where the picture is not
    to be seen it is still there, hidden: transport and keys go on to drive the batch.
    """
    st.session_state[ASKED] = None

    @st.fragment
    def picture() -> None:
        number, have = st.session_state[ASKED] or (st.session_state.get("batching_ask", 0), 0)
        message = session.batch.message(number, have)
        if (follows or message is None) and st.session_state[ASKED] is not None:
            st.rerun()  # or the batch has been let go, and the page starts another
        if message is not None:
            mount_batching(message, lambda: _on_ask(session))

    picture()


def _on_ask(session: Session) -> None:
    value = ask_of("batching")
    if value is None:
        return
    ask = BatchAsk.parse(value)
    session.batch.handle(ask)
    same = ask.run_id == session.batch.run_id
    st.session_state[ASKED] = (ask.number, ask.have if same else 0)
    st.session_state["batching_ask"] = ask.number
