"""The run in view as files: a run file that opens again without the model, and a web page to step offline."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import streamlit as st

import miniinfer
from miniinfer.errors import MiniInferError
from miniinfer.figures.offline_page import offline_page
from miniinfer.trace.files.format import trace_bytes
from miniinfer.trace.files.recorded_run import Origin, RecordedRun
from miniinfer.trace.files.recording import record
from miniinfer.trace.run import Run
from miniinfer.ui.file_names import file_name
from miniinfer.ui.saving.saved_runs import EXAMPLE_ID
from miniinfer.ui.sessions.make_live import make_live
from miniinfer.ui.sessions.session import Session

MADE = "take_away_made"  # (run id, steps, name) and its files, of the run that they were made of last


def draw_take_away(session: Session) -> None:
    """Makes both files when it is asked to, and says how large they are before they are saved."""
    run = session.timeline.current
    assert run is not None  # a session always has a run: the recorded example at the least
    last = len(run.steps)
    st.text(f"{run.info.name} · {last:,} step{'' if last == 1 else 's'}")
    if isinstance(run, RecordedRun) and run.info.run_id != EXAMPLE_ID:
        _live(session, run)
    if not last:
        st.caption("Step it once first: a run without a step has nothing to show.")
        return
    key = (run.info.run_id, last, run.info.name)
    found = st.session_state.get(MADE)
    if found is None or found[0] != key:
        st.caption(
            "Makes a run file, which opens again here without the model, and a web page, which can be stepped in any "
            "browser without a network. Both hold the tokens, the best 20 candidates of each step, attention, lengths "
            "of keys and values, times, settings and seed."
        )
        if st.button("Make the files", key="runs_away_make"):
            try:
                st.session_state[MADE] = (key, *_make(session, run))
            except MiniInferError as error:
                st.text(str(error))
                return
            st.rerun()
        return
    _, run_file, page = found
    name = file_name("miniinfer", run.info.name)
    with st.container(horizontal=True):
        st.download_button(
            f"Save run file ({_size(run_file)})", run_file, file_name=f"{name}.npz", key="runs_away_file",
            mime="application/octet-stream", on_click="ignore",
        )
        st.download_button(
            f"Save web page ({_size(page)})", page, file_name=f"{name}.html", key="runs_away_page", mime="text/html",
            on_click="ignore",
        )
    st.caption("Made a moment ago from the run as it stands. Tables and pictures are in the menu of each panel.")


def _live(session: Session, run: RecordedRun) -> None:
    ready = session.model is not None
    st.caption(
        "This is a recording. Live, it can go on and branch: its tokens, draws and times stay, everything large is "
        "computed again by the model."
    )
    pressed = st.button(
        "Make it live", key="runs_away_live", disabled=not ready,
        help=None if ready else "Possible once a model is loaded; how far it is stands at the top.",
    )
    if not pressed:
        return
    try:
        make_live(session, run)
    except MiniInferError as error:
        st.text(str(error))
        return
    st.switch_page("pages/workspace.py")


def _make(session: Session, run: Run) -> tuple[bytes, bytes]:
    """Run file and page. The positions are asked for one at a time, so that other tabs step in between."""
    origin = Origin(f"MiniInfer {miniinfer.__version__}", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    bar = st.progress(0.0, "Recording")
    shown = time.monotonic()
    if isinstance(run, RecordedRun):
        recorded: RecordedRun | None = run
    else:
        for made in record(run, origin, lambda job: session.look([run], job)):
            recorded = made.run
            if time.monotonic() > shown + 0.1:
                shown = time.monotonic()
                bar.progress(made.done / made.total, f"Recording position {made.done:,} of {made.total:,}")
    bar.empty()
    assert recorded is not None
    run_file = trace_bytes(recorded)
    return run_file, offline_page(recorded, session.timeline.cursor_of(run.info.run_id)).encode()


def _size(data: bytes) -> str:
    return f"{len(data) / 1000:,.0f} kB" if len(data) < 1_000_000 else f"{len(data) / 1e6:,.1f} MB"
