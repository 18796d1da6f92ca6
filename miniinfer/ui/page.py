"""What pages have in common: their head, what went wrong with the last thing asked for, and what stands where there is
nothing to show yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import streamlit as st

from miniinfer.errors import MiniInferError
from miniinfer.ui.recorded_words import when_live
from miniinfer.ui.sessions.session import Session

SECONDS = 20.0  # the most that one press of a button steps


@contextmanager
def page(name: str, title: str) -> Iterator[None]:
    """The body of the page `name`, with its title and the last error. Its keys begin with the name."""
    with st.container(key="page_body"), st.container(key=name):
        st.title(title, anchor=False)
        if error := st.session_state.get(f"{name}_error"):
            with st.container(key=f"{name}_error_page"):
                st.text(error)
        yield


def unseen_title(title: str) -> None:
    """For those who listen, on a page that needs the room of a title for its data. title: words of our own."""
    st.html(f'<h1 class="unseen">{title}</h1>')


def run_action(name: str, action: Callable[[], object]) -> None:
    """Do something to the session's runs and draw everything anew; what it refuses is said at the head of the page."""
    attempt(name, action)
    st.rerun()


def attempt(name: str, action: Callable[[], object]) -> None:
    """Do it, and keep what it refuses for the head of the page `name`."""
    try:
        action()
        st.session_state[f"{name}_error"] = None
    except MiniInferError as error:
        st.session_state[f"{name}_error"] = str(error)


@contextmanager
def card(title: str) -> Iterator[None]:
    """What stands in a page where there is nothing to show yet. title: words of our own, not the user's."""
    with st.container(key="page_card", border=True):
        st.markdown(f"**{title}**")
        yield


def draw_waiting(session: Session, what: str, why: str = "") -> None:
    """Where a page needs the model behind the run in view, and it is not there. what: a sentence without its end, of
    what will stand here; why: of what a recording has instead."""
    failed, ready = session.status.state == "failed", session.model is not None
    title = "This run is a recording" if ready else "The model is being loaded"
    with card("The model could not be loaded" if failed else title):
        if failed:
            st.text(session.status.text)
        st.text(f"{why} {what} {when_live(session)}".strip())


def draw_before_first_token(session: Session, name: str, title: str, sentences: Sequence[str]) -> None:
    """Where the cursor stands before the first token: what will stand here, and the button that takes one there."""
    run = session.timeline.current
    assert run is not None
    first = next((m.step for m in run.steps if m.token_id is not None), None)
    over = first is None and run.finish_reason is not None
    with card(title):
        for sentence in sentences:
            st.text(sentence)
        if over:
            st.text(f"This run ended ({run.finish_reason}) before it chose a token: start another one at the left.")
            return
        with st.container(horizontal=True, vertical_alignment="center"):
            label = "Make step 1" if not run.steps else "Go to the first token"
            if st.button(label, key=f"{name}_first_token", type="primary"):
                run_action(name, lambda: to_first_token(session))
            st.caption("or press the arrow key → (back: ←; play: space). The transport above is the same on each page.")


def to_first_token(session: Session) -> None:
    """Stand on the step that chose the run's first token; step on until there is one."""
    run, end = session.timeline.current, time.monotonic() + SECONDS
    assert run is not None
    while (first := next((m.step for m in run.steps if m.token_id is not None), None)) is None:
        before = len(run.steps)
        session.step_to(before + 1)
        if len(run.steps) == before or time.monotonic() > end:
            return
    session.step_to(first)
