"""The sampling page: which token, the settings that are tried on it at the left, one of eight views at the right."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from miniinfer.config import SamplingParams
from miniinfer.errors import MiniInferError
from miniinfer.figures.sampling.words import percent
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.run import ChangeParams
from miniinfer.trace.sampling.place import Place, place_of
from miniinfer.ui.page import SECONDS, draw_waiting, page, run_action
from miniinfer.ui.sampling.beside import draw_beside
from miniinfer.ui.sampling.branches import draw_branches
from miniinfer.ui.sampling.draw import draw_the_draw
from miniinfer.ui.sampling.find import draw_find
from miniinfer.ui.sampling.look import Look
from miniinfer.ui.sampling.none import draw_no_token
from miniinfer.ui.sampling.order import draw_orders
from miniinfer.ui.sampling.predict import draw_predict
from miniinfer.ui.sampling.settings import draw_settings, reset_settings
from miniinfer.ui.sampling.stages import draw_stages
from miniinfer.ui.sampling.what_if import draw_what_if
from miniinfer.ui.sessions.session import Session
from miniinfer.ui.views import draw_views

VIEWS: dict[str, Callable[[Look], None]] = {
    "Stages": draw_stages, "Any token": draw_find, "Order": draw_orders, "The draw": draw_the_draw,
    "What if": draw_what_if, "Branches": draw_branches, "Side by side": draw_beside, "Predict": draw_predict,
}  # fmt: skip


def draw_sampling(session: Session) -> None:
    """Linked to the session's run and cursor: the transport in the frame moves what is shown here."""

    @st.fragment
    def body() -> None:
        with page("sampling", "How was this token chosen?"):
            run = session.timeline.current
            if not isinstance(run, LiveRun):
                draw_waiting(
                    session, "The whole vocabulary, every stage of the sampler and the draw will stand here",
                    "A recorded run has 20 candidates a step only.",
                )
                return
            try:
                place = session.look([run], lambda: place_of(run, session.timeline.cursor))
            except MiniInferError as caught:
                st.text(str(caught))
                return
            _draw(session, run, place)

    body()


def _draw(session: Session, run: LiveRun, place: Place | None) -> None:
    left, right = st.columns([4, 13], gap="medium")
    with left, st.container(key="sampling_settings"):
        own = run.info.params if place is None else place.params
        params, good = draw_settings(own, run.info.model.vocab_size)
        _actions(session, run, own, params, good=good, can_branch=place is not None)
    with right:
        if place is None:
            draw_no_token(session, run, params)
            return
        look = Look(session, run, place, params)
        try:
            _head(look)
        except MiniInferError as error:  # a row of NaN: no token can be drawn, and the sentence says so
            st.text(str(error))
            return
        chosen = draw_views("sampling_view", list(VIEWS), "Stages")
        try:
            VIEWS[chosen](look)
        except MiniInferError as error:  # another temperature or order of these settings may leave no number
            st.text(str(error))


def _head(look: Look) -> None:
    """What the run took here, and what these settings would have drawn with the same coin."""
    place, now = look.place, look.now
    own = look.sampling(place.params) if look.is_what_if else now
    raw, used = float(own.raw.probs[place.token_id]), float(own.used.probs[place.token_id])
    verb = "was forced to take" if place.forced else "took"
    with st.container(key="sampling_head"):
        _say(
            f"Step {place.step}: after {look.before(place)} the run {verb} {look.quoted(place.token_id)}. The model "
            f"assigned {percent(raw)} to it, the run's settings {percent(used)}; {own.used.num_kept:,} of "
            f"{own.vocab_size:,} tokens could be drawn."
        )
        if look.is_what_if:
            same = now.token_id == place.token_id
            _say(
                f"What if: with the settings at the left, {now.used.num_kept:,} could be drawn, and the coin "
                f"{now.coin:.4f} lands on {look.quoted(now.token_id)}{' as well' if same else ''}, which has "
                f"{percent(float(now.used.probs[now.token_id]))}."
            )


def _say(sentence: str) -> None:
    st.text(sentence.replace(" %", "\u00a0%"))  # a line must not end between a number and its sign


def _actions(
    session: Session, run: LiveRun, own: SamplingParams, params: SamplingParams, *, good: bool, can_branch: bool
) -> None:
    """The only two buttons of the settings that do something to runs, and the one that takes back what was tried.

    good: all fields can be used; else the settings are not those that stand in them, and no run is made of them.
    """
    changed, step = params != own, session.timeline.cursor
    why = "Starts a branch at this step: its token is drawn again with these settings, then they stay."
    again = "A new run of the same prompt, stepped as far as this one; both are kept and can be compared."
    if not good:
        why = again = "A field above cannot be used: the sentence beneath it says why."
    elif not can_branch:
        why = "Possible at a step that chose a token; until then, run the prompt with these."
    elif not changed:
        why = "These are the run's own settings at this step; change one first."
    if st.button(
        "Use these from here", type="primary", width="stretch", key="sampling_use",
        disabled=not (good and changed and can_branch), help=why,
    ):
        run_action("sampling", lambda: session.branch(ChangeParams(step, params)))
    if st.button(
        "Run the prompt with these", width="stretch", key="sampling_new_run", disabled=not good, help=again,
    ):
        run_action("sampling", lambda: _run_again(session, run, params))
    st.button(
        "Back to the run's own", width="stretch", key="sampling_reset", disabled=good and not changed,
        on_click=reset_settings,
        help="Nothing is changed." if good and not changed else "Takes back what was changed here; the run never was.",
    )


def _run_again(session: Session, run: LiveRun, params: SamplingParams) -> None:
    info, step = run.info, session.timeline.cursor
    session.new_run(info.prompt, params, chat=info.chat, one_pass=info.one_pass)
    session.step_to(step, seconds=SECONDS)
