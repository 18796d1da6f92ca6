"""What stands around every page: the page menu and the transport, which shows how far the model is while it loads."""

from __future__ import annotations

import functools
from contextlib import suppress
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.errors import StreamlitAPIException

from miniinfer.ui.ask import Ask
from miniinfer.ui.mount import ask_of, mount_transport
from miniinfer.ui.room import room, take_room
from miniinfer.ui.sessions.session import Session

STYLES = Path(__file__).parent / "styles"  # one file a page, and that of the frame, which comes first
POLL_SECONDS = 0.25
BODY = "page_body"  # the fragment that is a page's body, where a page has one that follows the cursor
# What a move of the cursor draws anew; on other pages that is everything.
DRAWN = {
    "Tokenizer": ["frame", BODY], "Attention": ["frame", BODY], "Inside a step": ["frame", BODY], "Break it": ["frame"],
}  # fmt: skip
RUNS = "runs"  # the page that the run menu leads to


def draw_frame(session: Session, page: Any, pages: list[Any], *, has_driver: bool) -> None:
    """page, pages: what st.navigation gave and got. has_driver: the page's own component answers the transport."""
    st.html(f"<style>{_style()}</style>")
    session.queue_place.draw()
    busy = session.status.state in ("waiting", "loading")
    if not busy:
        session.go_live()  # the model was there already, or became ready while the page was being drawn anew

    @st.fragment(key="frame", run_every=POLL_SECONDS if busy else None)
    def frame() -> None:
        asked = st.session_state.pop("transport_asked", False)
        if st.session_state.pop("go_to_runs", False):
            st.switch_page(next(other for other in pages if other.url_path == RUNS))
        if busy and session.status.state in ("ready", "failed"):
            session.go_live()
            st.rerun()
        if asked and not has_driver:
            st.rerun()  # the page stands on the cursor that has just moved
        with st.container(key="frame", horizontal=True, gap=None, vertical_alignment="center"):
            # A key of its own on each page: choosing a page closes the menu.
            with st.popover(page.title, key=f"page_menu_{page.title}", type="tertiary"):
                for other in pages:
                    st.page_link(other)
            dark = st.context.theme.type == "dark"
            data = session.transport(has_driver) | {"dark": dark, "room": room()}
            mount_transport(data, _on_ask(session, DRAWN.get(page.title)))
        if not has_driver:  # the workspace shows them among its own notices
            error = session.error or session.keeper.problem
            if error:
                with st.container(key="frame_error"):
                    st.text(error)
            if session.note:
                with st.container(key="frame_note"):
                    st.text(session.note)

    frame()


@functools.cache
def _style() -> str:
    paths = sorted(STYLES.glob("*.css"), key=lambda path: (path.stem != "frame", path.stem))
    return "\n".join(path.read_text("utf-8") for path in paths)


def _on_ask(session: Session, drawn: list[str] | None) -> Any:
    """drawn: fragments that a page of its own kind draws anew; the side panel and the rest of the page stay."""

    def on_ask() -> None:
        asked = ask_of("transport")
        if isinstance(asked, dict) and asked.get("page") == RUNS:
            st.session_state["go_to_runs"] = True
        elif take_room(asked):
            st.session_state["transport_asked"] = True
        elif asked is not None:
            session.handle(Ask.parse(asked))
            if drawn is not None:
                with suppress(StreamlitAPIException):  # the page was left before its body had been drawn once
                    st.rerun(drawn)
            st.session_state["transport_asked"] = True

    return on_ask
