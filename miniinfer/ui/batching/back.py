"""What the batching page finds when it is drawn first: the form and the batch that its address brought back, or the
first preset."""

from __future__ import annotations

import streamlit as st

from miniinfer.errors import BadInputError, MiniInferError
from miniinfer.store.saved_batch import SavedProgress, SavedSet
from miniinfer.trace.batch.presets import PRESETS
from miniinfer.ui.batching import look
from miniinfer.ui.batching.form import frame_of_set, saved_set
from miniinfer.ui.batching.keep import model_words, requests_of
from miniinfer.ui.batching.look import Form, form, form_of, own_sets, start
from miniinfer.ui.sessions.session import Session


def start_first(session: Session) -> None:
    """A visit finds a batch there: at its beginning, or what its address brought back."""
    bring_back(session)
    if session.batch.run is None and not st.session_state.get(look.ERROR):
        start(session)


def keep_typed(session: Session) -> None:
    """What stands in the form, and in the sets beside it, outlives this tab."""

    def saved(one: Form) -> SavedSet:
        return saved_set(one.preset.name, one.own, one.frame, one.settings)

    filled = form()
    session.batch.keep.typed(saved(filled), tuple(map(saved, own_sets().values())), own=filled.changed())


def bring_back(session: Session) -> None:
    """The form as it stood, and the batch as far as it had come, once after the page was loaded anew."""
    back, session.batch.keep.returning = session.batch.keep.returning, None
    if back is None:
        return
    if look.FORM not in st.session_state:  # else only the connection was lost, and what was typed is still here
        sets = {one.own: _form_of_set(one) for one in back.sets if one.own}
        st.session_state[look.OWN_SETS] = sets
        st.session_state[look.FORM] = sets.get(back.form.own or "") or _form_of_set(back.form)
        st.session_state[look.VERSION] = 0
        st.session_state[look.CHOSEN] = form().name
    if back.run is not None:
        _bring_run_back(session, back.run)


def _bring_run_back(session: Session, run: SavedProgress) -> None:
    steps = f"step {run.num_steps:,}"
    try:
        if model_words(session.batch.model()) != run.model:
            raise BadInputError(
                f"The batch that was here had come to {steps} with {run.model}; another model is loaded now. What you "
                "had typed is here again: press Run."
            )
        requests, settings = requests_of(run)
        session.batch.start(requests, settings, run.name, resume=run.num_steps, aborted=run.aborted)
        st.session_state[look.BACK] = (
            f"This batch had come to {steps}, and is computed again up to there: the same tokens, new times."
        )
    except MiniInferError as error:
        start(session)
        st.session_state[look.BACK] = str(error)


def _form_of_set(saved: SavedSet) -> Form:
    preset = next((preset for preset in PRESETS if preset.name == saved.preset), PRESETS[0])
    return Form(frame_of_set(saved), form_of(preset).settings | saved.settings, preset, saved.own)
