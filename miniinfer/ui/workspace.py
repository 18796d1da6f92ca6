"""The workspace: one fragment with one component. It answers what the browser asks for and sends nothing else."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.workspace import ExactAsk, HeadAsk, Selection
from miniinfer.ui.ask import Ask
from miniinfer.ui.mount import ask_of, mount_workspace
from miniinfer.ui.sessions.session import Session


def draw_workspace(session: Session) -> None:
    """On a full run the browser may know nothing, so all it needs to paint is sent; after an ask, what was asked."""
    st.session_state["workspace_selection"] = None

    @st.fragment
    def workspace() -> None:
        if st.session_state.pop("workspace_waits", False):
            st.rerun()  # a saved run comes back when its model is loaded: the frame looks out for that
        asked: Selection | None = st.session_state["workspace_selection"]
        message = session.message(asked or _everything(session))
        mount_workspace(message, lambda: _on_ask(session))

    workspace()


def _on_ask(session: Session) -> None:
    value = ask_of("workspace")
    if value is None:
        return
    ask = Ask.parse(value)
    before = session.timeline.current
    session.handle(ask)
    # Another run than the browser knows: what it has does not count.
    same = session.timeline.current is before and before is not None and before.info.run_id == ask.run_id
    st.session_state["workspace_selection"] = ask.selection if same else _everything(session, ask.number)
    st.session_state["workspace_ask"] = ask.number
    st.session_state["workspace_waits"] = session.keeper.wanted is not None and ask.open is not None


def _everything(session: Session, number: int | None = None) -> Selection:
    run, cursor = session.in_view
    head = run.info.default_head
    return Selection(
        ask=st.session_state.get("workspace_ask", 0) if number is None else number,
        details=(cursor,) if cursor else (),
        head=HeadAsk(*head, 0, run.steps[-1].context_len) if head and run.steps else None,
        exact=ExactAsk(*head) if head is not None else None,
    )
