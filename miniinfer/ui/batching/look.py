"""What the views of the batching page share: the batch looked at, the form it is made from, and the running task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from miniinfer.errors import BadInputError, MiniInferError
from miniinfer.figures.palette import Palette, palette
from miniinfer.trace.batch.presets import PRESETS, Preset
from miniinfer.trace.batch.records import BatchTrace
from miniinfer.trace.batch.settings import BatchSettings
from miniinfer.ui.batching.form import frame_of, requests_of
from miniinfer.ui.cost.look import NOTICE, RESULTS, TASK, draw_progress, task
from miniinfer.ui.cost.task import CostTask
from miniinfer.ui.sessions.session import Session

FORM, VERSION, REFUSED, ERROR = "batching_form", "batching_version", "batching_refused", "batching_error"
GOTO = "batching_goto"
BACK = "batching_back"  # what came back when the page was loaded anew, in a sentence
PRESET, OWN_SETS, CHOSEN = "batching_preset", "batching_own_sets", "batching_chosen"
OWN = "Own requests"


@dataclass(frozen=True)
class BatchLook:
    """The session's batch, looked at without touching it."""

    session: Session

    @property
    def trace(self) -> BatchTrace | None:
        return self.session.batch.trace

    @property
    def run_id(self) -> str:
        return self.session.batch.run_id

    @property
    def colours(self) -> Palette:
        return palette(dark=st.context.theme.type == "dark")

    def result(self, view: str) -> Any:
        """What this view found out about this batch, or None."""
        return st.session_state.get(RESULTS, {}).get((view, self.run_id))

    def begin(self, view: str, prepare: Any) -> None:
        """Start a long task, one at a time in a tab, and draw the page anew."""
        running = task()
        if running is None or running.state != "running":
            st.session_state[NOTICE] = None
            st.session_state[TASK] = CostTask(self.session, view, self.run_id, prepare)
        st.rerun()


@dataclass
class Form:
    """What stands in the editor. settings: values of BatchSettings by name, as typed (num_blocks 0: enough)."""

    frame: pd.DataFrame
    settings: dict[str, Any]
    preset: Preset  # what it began as
    own: str | None = None  # the name under which it is kept, once it was changed

    @property
    def name(self) -> str:
        return self.own or self.preset.name

    def changed(self) -> bool:
        """Whether it differs from its preset."""
        try:
            asked = requests_of(self.frame)
        except MiniInferError:
            return True
        return asked != (list(self.preset.requests), []) or self.settings != form_of(self.preset).settings


def form() -> Form:
    """The tab's form; at first the first preset."""
    if FORM not in st.session_state:
        st.session_state[FORM] = form_of(PRESETS[0])
        st.session_state[VERSION] = 0
    found: Form = st.session_state[FORM]
    return found


def form_of(preset: Preset) -> Form:
    s = preset.settings
    values = {name: getattr(s, name) for name in s.__dataclass_fields__}
    values["num_blocks"] = s.num_blocks or 0
    return Form(frame_of(preset.requests), values, preset)


def own_sets() -> dict[str, Form]:
    """The sets of requests and settings that the user made in this tab, by name."""
    found: dict[str, Form] = st.session_state.setdefault(OWN_SETS, {})
    return found


def keep_own() -> None:
    """A form that was changed goes on under a name of its own, so that its preset can be chosen again as it was."""
    filled, own = form(), own_sets()
    if filled.own is None and filled.changed():
        filled.own = OWN if OWN not in own else f"{OWN} {len(own) + 1}"
        own[filled.own] = filled


def start(session: Session) -> bool:
    """A new batch of what the form says; False, with a sentence in ERROR, if there is none to run."""
    filled = form()
    st.session_state[ERROR] = st.session_state[BACK] = None
    st.session_state[REFUSED] = []
    try:
        requests, st.session_state[REFUSED] = requests_of(filled.frame)
        settings = BatchSettings(**(filled.settings | {"num_blocks": filled.settings["num_blocks"] or None}))
        if not requests and st.session_state[REFUSED]:
            raise BadInputError("No request is left to run: change them under “Requests and settings”.")
        session.batch.start(requests, settings, filled.name)
    except MiniInferError as error:
        st.session_state[ERROR] = str(error)
        return False
    return True


def run_form(session: Session) -> bool:
    """What "Run" does: as `start`; a changed form has its own name from then on."""
    keep_own()
    st.session_state[CHOSEN] = form().name
    return start(session)


def delete_own(session: Session) -> None:
    """The set in the editor goes, and what it began as stands there again."""
    filled = form()
    own_sets().pop(filled.own or "", None)
    st.session_state[FORM] = form_of(filled.preset)
    st.session_state[VERSION] += 1
    st.session_state[CHOSEN] = filled.preset.name
    start(session)


def draw_preset(session: Session) -> None:
    """Which preset, or which set of one's own; choosing one fills the form and starts it."""
    form()
    if (chosen := st.session_state.pop(CHOSEN, None)) is not None:
        st.session_state[PRESET] = chosen

    def choose() -> None:
        keep_own()
        name = st.session_state[PRESET]
        own = own_sets().get(name)
        st.session_state[FORM] = own or form_of(next(p for p in PRESETS if p.name == name))
        st.session_state[VERSION] += 1
        start(session)

    st.selectbox(
        "Preset", [*(preset.name for preset in PRESETS), *own_sets()], key=PRESET, on_change=choose,
        label_visibility="collapsed", persist_state="session", width=210,
        help="Requests and settings that show one thing. Choosing one starts it from its first step; what you changed "
        "stays in this list under a name of its own.",
    )


def draw_notices(session: Session) -> None:
    """What keeps the form from running, and each request that does not run, by name."""
    trace = session.batch.trace
    back = st.session_state.get(BACK)
    if back and (trace is None or len(trace.steps) <= session.batch.resume or not session.batch.resume):
        with st.container(key="batching_back"):
            st.text(back)
    lines = [st.session_state.get(ERROR), *st.session_state.get(REFUSED, ())]
    lines += trace.refused.values() if trace is not None else []
    lines.append(st.session_state.get(NOTICE))
    if shown := [line for line in lines if line]:
        with st.container(key="batching_notice"):
            st.text("\n".join(shown))


def draw_task() -> None:
    """Progress of the task that runs, with the way to end it."""
    if task() is not None:
        draw_progress("batching", "Running")
