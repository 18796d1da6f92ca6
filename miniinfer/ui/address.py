"""The address of a page: which session (`s`), which run, which step. With it everything comes back on any page."""

from __future__ import annotations

import streamlit as st

from miniinfer.errors import MiniInferError
from miniinfer.store.faults import StoreError
from miniinfer.ui.hosting.browser_name import COOKIE, is_browser_name
from miniinfer.ui.saving.saved_runs import EXAMPLE_ID
from miniinfer.ui.sessions.session import Session

NOT_THERE = (
    "The run of this address is not among the saved ones: it was deleted, it was a recording of a server that has "
    "ended (open its file again), or this is another computer or folder. The page Runs lists those that are saved; "
    "this is the example."
)
RELOAD = "Then load this page again: its address brings the run back."
MOST_DIGITS = 9


def place_of(session: Session) -> dict[str, str]:
    """What the address says of the session as it stands, or of the run that is about to come back."""
    timeline, keeper = session.timeline, session.keeper
    if keeper.unread is not None:
        return keeper.unread
    wanted = keeper.waiting.get(keeper.wanted.run_id) if keeper.wanted is not None else None
    if wanted is not None:
        return {"s": keeper.token, "run": wanted.run_id, "step": str(wanted.cursor)}
    assert timeline.current is not None
    return {"s": keeper.token, "run": timeline.current.info.run_id, "step": str(timeline.cursor)}


def sync_address(session: Session) -> None:
    """Write it: a click in the navigation drops the query string."""
    wanted = place_of(session)
    if {k: st.query_params.get(k) for k in wanted} != wanted:
        st.query_params.update(wanted)


def read_address(session: Session) -> None:
    """On a session's first run: what the address names comes back."""
    before: Session | None = st.session_state.get("session")
    if before is session:
        return
    st.session_state["session"] = session
    named = str(st.context.cookies.get(COOKIE, ""))
    if is_browser_name(named):
        session.keeper.browser = named
    elif before is not None:
        session.keeper.browser = before.keeper.browser
    token, run_id, step = (st.query_params.get(name) for name in ("s", "run", "step"))
    number = int(step) if step is not None and step.isdecimal() and len(step) <= MOST_DIGITS else None
    with session.lock:
        if before is not None:  # a dropped connection has come back: the browser still knows the earlier runs
            session.timeline.count_on_from(before.timeline)
            # What this run was told of the address is older than what the browser wrote into it since.
            token, (run_id, number) = before.keeper.token, before.keeper.place or (run_id, number)
        try:
            there = bool(token) and session.keeper.come_back(str(token)[:64], run_id, number)
        except StoreError as error:  # the file cannot be read now: the address stays as it is
            session.error = f"{error} {RELOAD}"
            session.keeper.unread = {"s": str(token)[:64], "run": run_id or "", "step": str(number or 0)}
            return
        except MiniInferError as error:
            session.error = str(error)
            return
        if there or run_id is None:
            return
        fresh = token is not None and run_id in (EXAMPLE_ID, "r1") and not session.keeper.waiting
        if fresh and session.timeline.current is not None and number is not None and number <= 1:
            session.timeline.cursor = number  # nothing had been done yet: the example again
        elif run_id != EXAMPLE_ID:
            session.error = NOT_THERE
