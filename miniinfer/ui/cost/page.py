"""The cost page: what a token costs in time and bytes, in seven views. Nothing is measured before a button says so."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from miniinfer.trace.live_run import LiveRun
from miniinfer.ui.cost.backends import draw_backends
from miniinfer.ui.cost.cache_off import draw_cache_off
from miniinfer.ui.cost.curve import draw_curve
from miniinfer.ui.cost.look import NOTICE, CostLook, draw_progress, take_in, task
from miniinfer.ui.cost.precision import draw_precision
from miniinfer.ui.cost.predict import draw_predict
from miniinfer.ui.cost.roofline import draw_roofline
from miniinfer.ui.cost.run import draw_run_times
from miniinfer.ui.cost.time import draw_run_steps, draw_time
from miniinfer.ui.page import draw_waiting, page
from miniinfer.ui.run_look import RunLook
from miniinfer.ui.sessions.session import Session
from miniinfer.ui.views import draw_views

VIEWS: dict[str, Callable[[CostLook], None]] = {
    "Where time goes": draw_time, "Why": draw_roofline, "Per token": draw_curve, "Backends": draw_backends,
    "Cache on / off": draw_cache_off, "Precision": draw_precision, "Predict": draw_predict,
}  # fmt: skip


def draw_cost(session: Session) -> None:
    """Linked to the session's run: figures are of the run that is open, each says at which length it was measured."""
    take_in()

    @st.fragment
    def body() -> None:
        with page("cost", "What does a token cost, and where does the time go?"):
            run = session.timeline.current
            if not isinstance(run, LiveRun):
                draw_waiting(
                    session, "Times, bytes and operations of the real model will stand here",
                    "A recorded run cannot be measured; these are the times of then.",
                )
                if run is not None and run.steps:
                    recorded = RunLook(session, run)
                    draw_run_times(recorded)
                    draw_run_steps(recorded)
                return
            chosen = draw_views("cost_view", list(VIEWS), "Where time goes")
            _draw_task()
            VIEWS[chosen](CostLook(session, run))

    body()


def _draw_task() -> None:
    """Progress of the running measurement, or why the last one has no result."""
    if task() is None:
        if notice := st.session_state.get(NOTICE):
            with st.container(key="cost_notice"):
                st.text(notice)
        return

    draw_progress("cost", "Measuring")
