"""What stands around every page: the page menu and the transport, which shows how far the model is while it loads."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import streamlit as st

from miniinfer.ui.ask import Ask
from miniinfer.ui.mount import ask_of, mount_transport
from miniinfer.ui.session import Session

STYLES = Path(__file__).parent / "styles"  # one file a page, and that of the frame, which comes first
POLL_SECONDS = 0.5


def draw_frame(session: Session, page: Any, pages: list[Any], *, has_driver: bool) -> None:
    """page, pages: what st.navigation gave and got. has_driver: the page's own component answers the transport."""
    st.html(f"<style>{_style()}</style>")
    busy = session.status.state in ("waiting", "loading")
    if not busy:
        session.go_live()  # the model was there already, or became ready while the page was being drawn anew

    @st.fragment(run_every=POLL_SECONDS if busy else None)
    def frame() -> None:
        asked = st.session_state.pop("transport_asked", False)
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
            mount_transport(session.transport(has_driver), _on_ask(session))
        if session.error and not has_driver:  # the workspace shows it among its own notices
            with st.container(key="frame_error"):
                st.text(session.error)

    frame()


@functools.cache
def _style() -> str:
    paths = sorted(STYLES.glob("*.css"), key=lambda path: (path.stem != "frame", path.stem))
    return "\n".join(path.read_text("utf-8") for path in paths)


def _on_ask(session: Session) -> Any:
    def on_ask() -> None:
        asked = ask_of("transport")
        if asked is not None:
            session.handle(Ask.parse(asked))
            st.session_state["transport_asked"] = True

    return on_ask


def sync_address(session: Session) -> None:
    """Write run and step into the address: a click in the navigation drops the query string."""
    run = session.timeline.current
    if run is not None:
        wanted = {"run": run.info.run_id, "step": str(session.timeline.cursor)}
        if {k: st.query_params.get(k) for k in wanted} != wanted:
            st.query_params.update(wanted)


def read_address(session: Session) -> None:
    """On a session's first run: a plain word if the address points at a run of an earlier session."""
    before: Session | None = st.session_state.get("session")
    if before is session:
        return
    st.session_state["session"] = session
    if before is not None:  # a dropped connection has come back
        session.timeline.count_on_from(before.timeline)
    if "run" in st.query_params:
        session.error = (
            "The page was loaded anew or lost its connection, which starts a new session: the runs of the earlier one "
            "were cleared. This is the example again; start a new run in the side panel."
        )
