"""The compare page: two runs of this session side by side; if there is one so far, the ways to a second one."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from miniinfer.trace.live_run import LiveRun
from miniinfer.ui.page import SECONDS, card, draw_waiting, page, run_action
from miniinfer.ui.sessions.session import Session
from miniinfer.ui.two_columns import draw_comparison


def draw_compare(session: Session) -> None:
    with page("compare", "Where do two runs part?"):
        session.bring_back_all()
        runs = list(session.timeline)
        if len(runs) < 2:
            _one_run(session)
            return
        left, right = st.columns(2)
        names = {r.info.run_id: f"{r.info.run_id} · {r.info.name}" for r in runs}
        a = left.selectbox("A", list(names), format_func=names.__getitem__, index=len(runs) - 2, key="compare_a")
        b = right.selectbox("B", list(names), format_func=names.__getitem__, index=len(runs) - 1, key="compare_b")
        draw_comparison(session, session.timeline.get(a), session.timeline.get(b))


def _one_run(session: Session) -> None:
    run = session.timeline.current
    if not isinstance(run, LiveRun):
        draw_waiting(
            session, "Two runs can stand side by side here (texts, the first token that differs, how far the two "
            "distributions are apart at each place)", "A recorded run is one; a second one needs the model.",
        )
        return
    draw_second_run(
        session, run, "compare", "Their texts, the first token that differs, its margin, and how far the two "
        "distributions are apart at each place will stand here. Other ways to a second run: a new run in the side "
        "panel; a branch, in the workspace (click a candidate of a step) or on the page Sampling.",
    )


def draw_second_run(session: Session, run: LiveRun, name: str, sentence: str) -> None:
    """Where there is one run only: what two would show, and the quickest way to a second one. name: of the page."""
    with card("Two runs will stand side by side here; there is one so far"):
        st.text(sentence)
        if st.button("Run the prompt again with the next seed", key=f"{name}_again", type="primary"):
            run_action(name, lambda: _again(session, run))


def _again(session: Session, run: LiveRun) -> None:
    """As far as the first one has been stepped."""
    info, steps = run.info, len(run.steps)
    params = replace(info.params, seed=(info.params.seed + 1) % 2**64)
    session.new_run(info.prompt, params, chat=info.chat, one_pass=info.one_pass)
    session.step_to(steps, seconds=SECONDS)
