"""The batching page: many requests at once, in five views. The first batch is there at once; nothing runs by itself."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from miniinfer.ui.batching.back import keep_typed, start_first
from miniinfer.ui.batching.lesson import draw_lesson
from miniinfer.ui.batching.look import GOTO, BatchLook, draw_notices, draw_preset, draw_task, run_form
from miniinfer.ui.batching.picture import draw_picture
from miniinfer.ui.batching.proof import draw_proof
from miniinfer.ui.batching.requests import DRAWN, draw_requests
from miniinfer.ui.batching.tables import draw_tables
from miniinfer.ui.cost.look import take_in
from miniinfer.ui.page import unseen_title
from miniinfer.ui.sessions.session import Session
from miniinfer.ui.views import draw_views

TITLE = "What happens when many ask at once?"
PICTURE, REQUESTS, PROOF, TABLES = "Step by step", "Requests and settings", "Batched or alone", "Tables"
VIEWS: dict[str, Callable[[BatchLook], None]] = {
    PICTURE: lambda look: draw_picture(look.session),
    REQUESTS: draw_requests,
    "Static or continuous": draw_lesson,
    PROOF: draw_proof,
    TABLES: draw_tables,
}
FOLLOW = (PROOF, TABLES)


def draw_batching(session: Session) -> None:
    """A session has one batch at a time; the picture steps it, the other views look at it or run it anew."""
    take_in()

    @st.fragment
    def body() -> None:
        with st.container(key="page_body"), st.container(key="batching_page"):
            if session.model is None:
                st.title(TITLE, anchor=False)
                if session.status.state == "failed":
                    st.text(session.status.text)
                st.text(
                    "Up to 16 requests will run together here, step by step, on the real model, as soon as it is "
                    "loaded; how far it is stands at the top."
                )
                return
            unseen_title(TITLE)
            start_first(session)
            if goto := st.session_state.pop(GOTO, None):
                st.session_state["batching_view"] = goto
            with st.container(key="batching_head", horizontal=True, vertical_alignment="center", gap="small"):
                chosen = draw_views("batching_view", list(VIEWS), PICTURE, stretch=False)
                draw_preset(session)
                clicked = st.button(
                    "Run", key="batching_run", type="primary",
                    help="Starts a new batch of the requests and settings, at its beginning; the old one is let go.",
                )
            draw_notices(session)
            draw_task()
            with st.container(key="batching_picture" if chosen == PICTURE else "batching_view_body"):
                VIEWS[chosen or PICTURE](BatchLook(session))
            if chosen != PICTURE:
                with st.container(key="batching_hidden"):
                    draw_picture(session, follows=chosen in FOLLOW)
            st.session_state[DRAWN] = chosen == REQUESTS
            keep_typed(session)
            if clicked:  # only now: what was typed last has come with this click
                if run_form(session):
                    st.session_state[GOTO] = PICTURE if chosen == REQUESTS else chosen
                st.rerun()

    body()
