"""What all views of the cost page look at, what was measured already, and how a measurement is asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import streamlit as st

from miniinfer.errors import MiniInferError
from miniinfer.measure.records import Calibration
from miniinfer.models.paths import data_home
from miniinfer.ui.cost.kept import Kept, keep, kept_of
from miniinfer.ui.cost.task import CostTask, Say
from miniinfer.ui.run_look import LiveRunLook

if TYPE_CHECKING:
    from miniinfer.measure.progress import Measurement
    from miniinfer.models.loader import LoadedModel

TASK, RESULTS, NOTICE, KEPT = "cost_task", "cost_results", "cost_notice", "cost_kept"
MAX_RESULTS = 24
POLL_SECONDS = 0.5
ROOM = 32  # positions behind a decode step that is measured: its rounds


class CostLook(LiveRunLook):
    """A live run, and what was measured beside it."""

    @property
    def model(self) -> LoadedModel:
        """That of the run, and its engines compute with the run's backend: what is measured is what runs."""
        backend = self.run.engine.backend
        return dataclasses.replace(super().model, choose_backend=lambda _weights: backend)

    @property
    def most_tokens(self) -> int:
        """That one step may compute. A measurement keeps to it too: on a server for many, nobody else waits longer."""
        return self.run.engine.config.max_num_batched_tokens

    @property
    def dtype(self) -> str:
        return self.run.info.dtype

    @property
    def where(self) -> str:
        """The device in a word: without a GPU nothing pretends to be one."""
        return self.run.info.device.upper()

    def result(self, view: str) -> Any:
        """What this view measured for this run, or None."""
        found = self._kept().get(view)
        return st.session_state.get(RESULTS, {}).get((view, self.run.info.run_id), found and found.result)

    def told_of(self, view: str) -> str | None:
        """When the result was measured, if that was in an earlier visit."""
        found = self._kept().get(view)
        measured_here = (view, self.run.info.run_id) in st.session_state.get(RESULTS, {})
        return found.told if found is not None and not measured_here else None

    def _kept(self) -> dict[str, Kept]:
        """What is saved with this run, looked up once a visit."""
        looked: dict[str, dict[str, Kept]] = st.session_state.setdefault(KEPT, {})
        run_id = self.run.info.run_id
        if run_id not in looked:
            looked[run_id] = kept_of(self.session, run_id)
        return looked[run_id]

    def calibration(self) -> Calibration | str:
        """The kept one of this machine, or the sentence that says what to do."""
        import torch

        from miniinfer.measure.calibration_file import load_calibration

        try:
            found = load_calibration(data_home(), torch.device(self.run.info.device))
        except MiniInferError as error:
            return str(error)
        return found or "This machine has not been calibrated yet: it takes about two seconds."


def decode_length(look: CostLook) -> int:
    """Positions in the cache about which a decode step of this run is measured: its newest, as far as there is room for
    the rounds in the model's context."""
    newest = max(look.run.seq.num_computed_tokens, look.run.info.num_prompt_tokens + 1)
    return max(1, min(newest, look.run.engine.context_length - ROOM))


def task() -> CostTask | None:
    """The measurement of this tab that is running, or over and not yet taken in."""
    return st.session_state.get(TASK)


def start(look: CostLook, view: str, prepare: Callable[[Say], Measurement[Any]]) -> None:
    """Begin a measurement, one at a time, and draw the page anew."""
    running = task()
    if running is None or running.state != "running":
        st.session_state[NOTICE] = None
        session, run_id = look.session, look.run.info.run_id
        kept = partial(keep, session, view, run_id)
        st.session_state[TASK] = CostTask(session, view, run_id, prepare, done=kept)
    st.rerun()


def take_in() -> None:
    """Put what a finished measurement found where views look for it, or say why there is nothing."""
    done = task()
    if done is None or done.state == "running":
        return
    st.session_state[TASK] = None
    if done.state == "done":
        results = st.session_state.setdefault(RESULTS, {})
        results[(done.view, done.run_id)] = done.result
        while len(results) > MAX_RESULTS:
            del results[next(iter(results))]
    st.session_state[NOTICE] = done.error or ("The measurement was cancelled." if done.state == "cancelled" else None)


def measure_button(
    look: CostLook, view: str, label: str, prepare: Callable[[Say], Measurement[Any]], why: str, *, primary: bool = True
) -> None:
    """A button that starts a measurement. why: what it does to the run (nothing) and how long it takes. primary: the
    view has nothing else to show before it."""
    running = task() is not None
    again = look.result(view) is not None
    if st.button(
        f"{label} again" if again else label, key=f"cost_measure_{view}", disabled=running,
        type="primary" if primary and not again else "secondary",
        help="A measurement is running; wait for it or cancel it." if running else why,
    ):
        start(look, view, prepare)
    if told := look.told_of(view):
        st.caption(told)


def calibrate_button(look: CostLook, found: Calibration | str, *, primary: bool = True) -> None:
    """Measures what the machine can do, and keeps it for later visits."""
    running = task() is not None
    known = isinstance(found, Calibration)
    if st.button(
        "Calibrate again" if known else "Calibrate this machine", key="cost_calibrate", disabled=running,
        type="primary" if primary and not known else "secondary",
        help="A measurement is running; wait for it or cancel it." if running
        else "Reads a large buffer and multiplies large matrices for about two seconds. The result is kept.",
    ):
        start(look, "calibration", lambda say: _calibration(look))


def _calibration(look: CostLook) -> Measurement[Calibration]:
    import torch

    from miniinfer.measure.calibration import calibrate
    from miniinfer.measure.calibration_file import save_calibration

    found = yield from calibrate(torch.device(look.run.info.device))
    save_calibration(found, data_home())
    return found


def draw_progress(page: str, verb: str) -> None:
    """Progress of the task that runs, with the way to end it. page: what its keys begin with."""

    @st.fragment(run_every=POLL_SECONDS)
    def progress() -> None:
        running = task()
        if running is None or running.state != "running":
            st.rerun()
        assert running is not None
        with st.container(key=f"{page}_progress", horizontal=True, vertical_alignment="center"):
            st.progress(min(max(running.progress.share, 0.0), 1.0), text=f"{verb}: {running.progress.text}")
            st.button("Cancel", key=f"{page}_cancel", on_click=running.cancel, help="Ends after the step that runs.")

    progress()
