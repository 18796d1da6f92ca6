"""Which fault, and what both sides are given. Choosing a fault fills in the prompt that shows it best."""

from __future__ import annotations

from typing import Any

import streamlit as st

from miniinfer.faults.catalogue import FAULTS, FRANCE, find_fault
from miniinfer.faults.fault import Fault, Situation
from miniinfer.ui.break_it.run import MOST_NEW, Question

NONE = "none"
NAMES = {NONE: "None: both healthy", **{fault.id: fault.name for fault in FAULTS}}


def chosen_fault() -> Fault | None:
    fault_id = st.session_state.get("break_fault", FAULTS[0].id)
    return None if fault_id == NONE else find_fault(fault_id)


def draw_controls(ready: bool) -> tuple[Question, bool]:
    """The question as the widgets put it, and whether it is asked now."""
    st.session_state.setdefault("break_fault", FAULTS[0].id)
    _fill_in(only_missing=True)
    st.radio(
        "Switch on one fault", list(NAMES), format_func=NAMES.__getitem__, key="break_fault", on_change=_fill_in,
        persist_state="session",
    )
    fault = chosen_fault()
    prompt = st.text_area("Prompt of both sides", key="break_prompt", height=76, persist_state="session")
    kind = st.segmented_control(
        "The prompt is", ["raw", "chat"], key="break_kind", required=True, width="stretch", persist_state="session",
        label_visibility="collapsed",
    )
    columns = st.columns(3)
    numbers: list[Any] = [
        column.number_input(label, least, most, step=step, key=key, persist_state="session", help=words)
        for column, (label, key, least, most, step, words) in zip(columns, _NUMBERS, strict=True)
    ]
    question = Question(fault, prompt, kind == "chat", int(numbers[0]), float(numbers[1]), int(numbers[2]))
    asked = st.button(
        "Run both", type="primary", width="stretch", key="break_run", disabled=not ready,
        help="Two engines of their own run the same prompt with the same coins. The runs of this session stay as they "
        "are." if ready else "The model is not loaded yet.",
    )
    return question, asked


_NUMBERS = (
    ("Tokens", "break_new", 1, MOST_NEW, 1, "Output tokens of each side."),
    ("Temp.", "break_temperature", 0.0, 5.0, 0.1, "Temperature; 0 is greedy. Both sides use the same."),
    ("Seed", "break_seed", 0, 2**53 - 1, 1, "Of the coins, which are the same on both sides."),
)


def _fill_in(*, only_missing: bool = False) -> None:
    fault = chosen_fault()
    situation: Situation = fault.situation if fault else FRANCE
    values: dict[str, Any] = {
        "break_prompt": situation.prompt, "break_kind": "chat" if situation.chat else "raw", "break_new": 16,
        "break_temperature": situation.params.temperature, "break_seed": situation.params.seed,
    }
    if not only_missing:
        st.session_state["break_error"] = None
    for key, value in values.items():
        if not only_missing or key not in st.session_state:
            st.session_state[key] = value
