"""The end of coming back: the step that was in view is there, and it is said what is as it was and what is not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from miniinfer.errors import MiniInferError
from miniinfer.figures.quoting import quoted
from miniinfer.store.saved_run import SavedRun
from miniinfer.trace.live_run import LiveRun
from miniinfer.ui.saving.view import Wanted

if TYPE_CHECKING:
    from miniinfer.trace.run import RunInfo
    from miniinfer.ui.sessions.session import Session

MOST_LOST = 64  # steps; a process that is killed loses what was not saved within the last third of a second
SECONDS = 3.0  # that making them again may take at most


def came_back(session: Session, saved: SavedRun, run: LiveRun, wanted: Wanted, started: float) -> str:
    """Call when the run is in view. The sentence to say. started: on the performance counter."""
    lost = _steps_again(session, run, wanted.step)
    if not run.steps:
        return f"{wanted.note}{quoted(saved.name)} is back, before its first step."
    told = f"{wanted.note}{quoted(saved.name)} is back at step {session.timeline.cursor}. "
    if saved.steps:
        told += (
            "Its tokens, draws and times are those of the first run; keys, values and attention were computed again "
            f"({1000 * (time.perf_counter() - started):,.0f} ms)."
        )
    told += rounding(run.info)
    before = saved.model.backend
    if before is not None and before != run.info.backend:
        told += (
            f" Before, it was computed by {before}, now by {run.info.backend}: figures differ in their last digits, "
            "and from here on a draw that is close may fall otherwise."
        )
    return told + lost


def rounding(info: RunInfo) -> str:
    """What is to be said of later draws where one prefill for many steps does not give the steps' own bits nearly."""
    if info.dtype == "float32":
        return ""
    return f" In {info.dtype} one prefill rounds otherwise than those steps did, so a later draw may fall otherwise."


def _steps_again(session: Session, run: LiveRun, step: int) -> str:
    """The address names a step behind the last one that was saved: it was seen, and the process was ended before it was
    in the file. Seed and place give the same coin, so it is made again. What to say of it."""
    known = len(run.steps)
    if not known < step <= known + MOST_LOST or run.finish_reason is not None:
        return ""
    try:
        session.step_to(step, SECONDS)
    except MiniInferError as error:
        session.error = str(error)
    made = len(run.steps)
    if made == known:
        return ""
    which = f"Step {made} was" if made == known + 1 else f"Steps {known + 1} to {made} were"
    return f" {which} not saved yet and ran again, with the same coin{'s' * (made > known + 1)} and new times."
