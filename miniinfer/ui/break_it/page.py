"""The page "Break it": the faults at the left, healthy beside broken at the right, once both have been run."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from miniinfer.errors import MiniInferError
from miniinfer.faults.fault import Fault
from miniinfer.ui.break_it.controls import NONE, draw_controls
from miniinfer.ui.break_it.run import Answer, Question, run_both
from miniinfer.ui.break_it.views import draw_code, draw_facts, draw_loss, draw_side_by_side, draw_tables
from miniinfer.ui.sessions.session import Session
from miniinfer.ui.views import draw_views

VIEWS: dict[str, Callable[[Answer], None]] = {
    "Side by side": draw_side_by_side, "Loss": draw_loss, "Tables": draw_tables,
}  # fmt: skip
ANSWERS = "break_answers"  # by fault id: so that going back to one shows it again


def draw_break(session: Session) -> None:
    @st.fragment
    def body() -> None:
        with st.container(key="page_body"), st.container(key="break"):
            st.title("What breaks when one small thing is wrong?", anchor=False)
            left, right = st.columns([4, 13], gap="medium")
            with left, st.container(key="break_controls"):
                question, asked = draw_controls(session.model is not None)
            with right, st.container(key="break_answer"):
                _draw_fault(session, question.fault)
                if asked:
                    _run(session, question)
                _draw_answer(session, question)

    body()


def _draw_fault(session: Session, fault: Fault | None) -> None:
    """What is replaced, what it does, and how one would have noticed."""
    if fault is None:
        st.text(
            "No stage is replaced: two healthy engines run side by side. Every tensor of every step must be equal, bit "
            "for bit; if it is not, what the other switches show means nothing."
        )
        return
    st.text(f"{fault.claim}{_detail(session, fault)}")
    if fault.situation.sentence:
        st.text(f"Set up on both sides: {fault.situation.sentence}")
    st.text(f"How one would have noticed: {fault.notice}")
    met = f" {fault.met.words} (docs/what-broke.md, “{fault.met.heading}”)." if fault.met else ""
    st.caption(f"Replaced: {fault.what_is_replaced}. Should change {fault.first[0]} · {fault.first[1]} first.{met}")


def _detail(session: Session, fault: Fault) -> str:
    return "" if fault.detail is None or session.model is None else f" {fault.detail(session.model.config)}"


def _run(session: Session, question: Question) -> None:
    answers = st.session_state.setdefault(ANSWERS, {})
    known = _answer_to(session, question)
    if known is not None and known.question == question:
        return  # a double click: the same coins would give the same bits
    bar = st.progress(0.0, "Both sides: starting")
    try:
        answers[_id(question)] = run_both(session, question, lambda words, share: _show(bar, words, share))
        st.session_state["break_error"] = None
    except MiniInferError as error:
        answers.pop(_id(question), None)
        st.session_state["break_error"] = str(error)
    finally:
        bar.empty()


def _show(bar: DeltaGenerator, words: str, share: float) -> None:
    bar.progress(share, words)


def _draw_answer(session: Session, question: Question) -> None:
    views: dict[str, Callable[[Answer], None]] = {**VIEWS}
    if error := st.session_state.get("break_error"):
        with st.container(key="break_error_page"):
            st.text(error)
    answer = _answer_to(session, question)
    if answer is None:
        _what_will_stand_here(session)
        if question.fault is not None:
            st.caption("Until then: the function that takes the healthy one's place.")
            draw_code(question.fault)
        return
    if answer.question != question:
        st.caption("This is what the last run showed; the prompt or a setting at the left was changed since. Run both.")
    draw_facts(answer)
    if question.fault is not None:
        fault = question.fault
        views["Code"] = lambda _answer: draw_code(fault)
    views[draw_views("break_view", list(views), "Side by side")](answer)


def _answer_to(session: Session, question: Question) -> Answer | None:
    """What this model has answered to the fault of the question, perhaps with another prompt or setting."""
    answer: Answer | None = st.session_state.get(ANSWERS, {}).get(_id(question))
    return answer if answer is not None and session.model is not None and session.key == answer.model else None


def _what_will_stand_here(session: Session) -> None:
    if session.model is None:
        if session.status.state == "failed":
            st.text(session.status.text)
        st.text(
            "Both sides can be run as soon as the model is loaded; how far it is stands at the top."
        )
    else:
        st.text(
            "Press “Run both”: the first stage and the first token that differ, both texts, the loss of a fixed text "
            "and the next-token bars will stand here."
        )


def _id(question: Question) -> str:
    return question.fault.id if question.fault else NONE
