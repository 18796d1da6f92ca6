"""The page "Inside a step": which step, which position, and one of six views of it."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from miniinfer.errors import MiniInferError
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.replay import StepRows, rows_of
from miniinfer.ui.frame import BODY
from miniinfer.ui.inside.checks import draw_checks
from miniinfer.ui.inside.lens import draw_lens
from miniinfer.ui.inside.look import InsideLook
from miniinfer.ui.inside.stage import draw_stage
from miniinfer.ui.inside.stream import draw_stream
from miniinfer.ui.inside.watch import draw_watch
from miniinfer.ui.inside.ways import draw_ways
from miniinfer.ui.page import unseen_title
from miniinfer.ui.recorded_words import when_live
from miniinfer.ui.sessions.session import Session
from miniinfer.ui.views import draw_views

VIEWS: dict[str, Callable[[InsideLook], None]] = {
    "Stage by stage": draw_stage, "Watch a tensor": draw_watch, "Residual stream": draw_stream,
    "Logit lens": draw_lens, "Checks": draw_checks, "Prefill and decode": draw_ways,
}  # fmt: skip
TITLE = "What happens inside a step?"


def draw_inside(session: Session) -> None:
    """Linked to the session's run and cursor: the transport in the frame moves what is looked into."""

    @st.fragment(key=BODY)
    def body() -> None:
        with st.container(key="page_body"), st.container(key="inside"):
            run = session.timeline.current
            if not isinstance(run, LiveRun):
                _recorded(session)
                return
            try:
                _draw(session, run)
            except MiniInferError as error:
                with st.container(key="inside_error"):
                    st.text(str(error))

    body()


def _recorded(session: Session) -> None:
    st.title(TITLE, anchor=False)
    if session.status.state == "failed":
        st.text(session.status.text)
    st.text(
        "This run was recorded earlier, and a recording does not hold the tensors inside its steps. They can be "
        "entered " + when_live(session)
    )


def _draw(session: Session, run: LiveRun) -> None:
    unseen_title(TITLE)
    with st.container(horizontal=True, vertical_alignment="bottom", key="inside_top", gap="small"):
        rows = _step(session, run)
        position = _position(session, run, rows)
        view = draw_views("inside_view", list(VIEWS), "Stage by stage", stretch=False)
    VIEWS[view](InsideLook(session, run, rows, position))


def _step(session: Session, run: LiveRun) -> StepRows:
    """The step under the cursor, or the next one where the cursor stands on the last."""
    cursor, last = session.timeline.cursor, len(run.records)
    over = run.finish_reason is not None
    options = [max(cursor, 1)]
    if cursor == last and cursor > 0 and not over:
        options.append(cursor + 1)
    key = f"inside_step_{run.info.run_id}_{options[0]}_{len(options)}"
    names = {step: f"Step {step}" if step <= last else f"Step {step}, not made yet" for step in options}
    chosen = st.segmented_control(
        "Step", options, format_func=names.__getitem__, default=options[0], key=key, required=True,
        label_visibility="collapsed",
        help="A step is replayed on a throwaway fork that shares the run's KV prefix: the run is not touched."
        + (f" The run ended ({run.finish_reason}), so there is no next step." if over else ""),
    )
    return rows_of(run, chosen or options[0])


def _position(session: Session, run: LiveRun, rows: StepRows) -> int:
    """One of the step's positions, by default its newest."""
    look = InsideLook(session, run, rows, rows.stop - 1)
    options = list(range(rows.start, rows.stop))
    return st.selectbox(
        "Position", options, index=len(options) - 1, format_func=lambda p: f"position {p}: {look.text_at(p)}",
        key=f"inside_position_{run.info.run_id}_{rows.start}_{rows.stop}", label_visibility="collapsed", width=180,
        help="The row of this position is what watches, checks of norms and the logit lens look at.",
    )
