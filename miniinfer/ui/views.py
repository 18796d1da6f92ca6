"""The choice of a page's view. The address names it (`panel`), so that a link or a reload opens the same one."""

from __future__ import annotations

import re
from collections.abc import Sequence

import streamlit as st

PANEL = "panel"  # in the address; the workspace has its own panels there
OPENED = "opened_views"  # key of a page's choice -> the view that the session's first look at the page began with


def draw_views(key: str, views: Sequence[str], default: str, *, stretch: bool = True) -> str:
    """A row of views, one of them chosen, kept over changes of page."""
    # The same default on each run of the script: Streamlit would take another one for another widget.
    opened = st.session_state.setdefault(OPENED, {})
    if opened.get(key) not in views:
        asked = st.query_params.get(PANEL)
        opened[key] = next((view for view in views if slug(view) == asked), default)
    chosen = st.segmented_control(
        "View", views, default=opened[key], key=key, required=True, label_visibility="collapsed",
        persist_state="session", width="stretch" if stretch else "content",
    ) or opened[key]  # fmt: skip
    if st.query_params.get(PANEL) != slug(chosen):
        st.query_params[PANEL] = slug(chosen)
    return chosen


def slug(view: str) -> str:
    """ "Keys and values" -> "keys-and-values"."""
    return "-".join(re.findall(r"[a-z0-9]+", view.lower()))
