"""The pages of the app, and the door through which each of them is entered."""

from __future__ import annotations

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from miniinfer.ui.sessions.session import Session, get_session


def all_pages() -> list[StreamlitPage]:
    """In the order of the page menu. No icons: Streamlit would fetch them from a foreign host, as the favicon."""
    return [
        st.Page("pages/workspace.py", title="Workspace", default=True),
        st.Page("pages/sampling.py", title="Sampling"),
        st.Page("pages/kv_cache.py", title="KV cache"),
        st.Page("pages/cost.py", title="Cost"),
        st.Page("pages/batching.py", title="Batching"),
        st.Page("pages/tokenizer.py", title="Tokenizer"),
        st.Page("pages/attention.py", title="Attention"),
        st.Page("pages/inside.py", title="Inside a step", url_path="inside"),
        st.Page("pages/break_it.py", title="Break it"),
        st.Page("pages/compare.py", title="Compare"),
        st.Page("pages/model.py", title="Model"),
        st.Page("pages/runs.py", title="Runs"),
    ]


def enter_page() -> Session:
    """The session, for a page that app.py runs inside its frame.

    Until st.navigation has been called once in a process, Streamlit takes a folder `pages/` for its older kind of app
    and runs the page of a bookmarked address alone. Then this hands over to app.py, which draws frame and page.
    """
    if not st.session_state.get("framed"):
        st.navigation(all_pages(), position="hidden")
        st.rerun()
    return get_session()
