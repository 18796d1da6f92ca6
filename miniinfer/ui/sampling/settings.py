"""The what-if settings of the sampling page: presets, one field a setting, the order of the stages.

Nothing here changes a run. A field that cannot be used says so beneath itself, and the figures keep the last settings
that could.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import streamlit as st

from miniinfer.config import PROCESSOR_NAMES, SamplingParams
from miniinfer.errors import BadInputError
from miniinfer.figures.sampling.words import LABELS
from miniinfer.trace.sampling.sampling import ORDERS
from miniinfer.ui.presets import PRESETS, Preset

FIELDS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("temperature", "Temperature", {"step": 0.1, "help": "0 = greedy: always the most probable token."}),
    ("top_p", "Top-p", {"step": 0.05, "help": "Keep the smallest set of best tokens that reaches this mass. 1 = off."}),
    ("top_k", "Top-k", {"step": 1, "help": "Keep the k most probable tokens. 0 = off."}),
    ("min_p", "Min-p", {"step": 0.01, "help": "Cut what is below this part of the best one's probability. 0 = off."}),
    ("repetition_penalty", "Repetition", {"step": 0.05, "help": "Counts prompt and output, once per id. 1 = off."}),
    ("presence_penalty", "Presence", {"step": 0.1, "help": "Taken off each id in the output. 0 = off."}),
    ("frequency_penalty", "Frequency", {"step": 0.1, "help": "Taken off once for each time in the output. 0 = off."}),
    ("seed", "Seed", {"help": "Same seed, same coins, whatever the settings."}),
)
BASE, ROWS, VALID = "sampling_base", "sampling_rows", "sampling_valid"


def draw_settings(base: SamplingParams, vocab_size: int) -> tuple[SamplingParams, bool]:
    """Draw the fields, filled with the settings of the step looked at; give back what they say, or said last, and
    whether all of them can be used."""
    state = st.session_state
    if state.get(BASE) != base:
        state[BASE] = base
        _fill(base)
    above = st.container()
    values: dict[str, Any] = {}
    good = True
    columns = st.columns(2, gap="small")
    for place, (name, label, options) in enumerate(FIELDS):
        with columns[place % 2]:
            value = _field(name, label, options)
            sentence = complaint(name, value)
            if sentence:
                good = False
                with st.container(key=f"sampling_error_{name}"):
                    st.text(sentence)
            else:
                values[name] = value
            if name == "top_k" and not sentence and value > vocab_size:
                st.caption(f"Above the vocabulary of {vocab_size:,}: it keeps all of them.")
    order = _draw_order()
    if good:
        state[VALID] = dataclasses.replace(base, order=order, **values)
    else:
        st.caption("The figures show the last settings that can be used; the run is as it was.")
        state[VALID] = dataclasses.replace(state[VALID], order=order)
    with above:
        _draw_presets(state[VALID])
    return state[VALID], good


def _draw_presets(now: SamplingParams) -> None:
    """It names the preset that the settings are, so that one can be taken again after something was changed."""
    same = (number for number, preset in enumerate(PRESETS) if _with(preset, now) == now)
    st.session_state["sampling_preset"] = next(same, None)
    titles = [preset.title for preset in PRESETS]
    st.selectbox(
        "Preset", range(len(PRESETS)), format_func=titles.__getitem__, index=None, key="sampling_preset",
        placeholder="Choose by what it does", on_change=_take_preset,
    )


def _field(name: str, label: str, options: dict[str, Any]) -> Any:
    """What the field says; of the seed the text, if that is no whole number."""
    if name == "seed":  # a number field drops what is above 2**53 without a word
        text: str = st.text_input(label, key=_key(name), persist_state="session", max_chars=24, help=options["help"])
        return int(text) if text.isascii() and text.strip().isdigit() else text
    return st.number_input(
        label, None, None, key=_key(name), persist_state="session", format="%d" if name == "top_k" else "%g", **options
    )


def _draw_order() -> tuple[str, ...]:
    """Six switches that can be moved; the two named orders are one click each."""
    state = st.session_state
    order = tuple(name for name in state[ROWS] if state.get(_key(name, "on"), True))
    named = [title for title, names in ORDERS.items() if names == order]
    state["sampling_named_order"] = named[0] if named else None
    st.segmented_control(
        "Order: temperature comes", list(ORDERS), key="sampling_named_order", on_change=_take_named_order,
        width="stretch", format_func=lambda title: "first" if title == next(iter(ORDERS)) else "last",
        help="Temperature before the filters or after them. The same settings may then keep other tokens.",
    )
    with st.container(key="sampling_order", gap=None):
        for place, name in enumerate(state[ROWS]):
            state.setdefault(_key(name, "on"), True)
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                st.checkbox(LABELS[name], key=_key(name, "on"), width="stretch", persist_state="session")
                # The style sheet shows the arrow alone; who listens hears what it moves.
                st.button(
                    f"↑\u2003{LABELS[name]} earlier", key=_key(name, "up"), disabled=place == 0, on_click=_move,
                    args=(name, -1), type="tertiary", help=f"{LABELS[name]}: one place earlier",
                )
                st.button(
                    f"↓\u2003{LABELS[name]} later", key=_key(name, "down"), disabled=place == len(state[ROWS]) - 1,
                    on_click=_move, args=(name, 1), type="tertiary", help=f"{LABELS[name]}: one place later",
                )
    return order


def reset_settings() -> None:
    """Back to the settings of the step looked at."""
    _fill(st.session_state[BASE])


def _fill(params: SamplingParams) -> None:
    state = st.session_state
    for name, _, _ in FIELDS:
        value = getattr(params, name)
        # A number field takes its kind from its first value, and 0 may be a whole number.
        state[_key(name)] = str(value) if name == "seed" else int(value) if name == "top_k" else float(value)
    for name in PROCESSOR_NAMES:
        state[_key(name, "on")] = name in params.order
    state[ROWS] = [*params.order, *(name for name in PROCESSOR_NAMES if name not in params.order)]
    state[VALID] = params


def _take_preset() -> None:
    state = st.session_state
    if state["sampling_preset"] is not None:
        _fill(_with(PRESETS[state["sampling_preset"]], state[VALID]))


def _with(preset: Preset, params: SamplingParams) -> SamplingParams:
    """What the preset makes of these settings; what is no matter of the sampler's stages stays."""
    kept = {name: getattr(params, name) for name in ("seed", "stop", "stop_ids", "max_new_tokens")}
    return SamplingParams(**{"temperature": 1.0, "top_p": 1.0} | kept | preset.settings)


def _take_named_order() -> None:
    state = st.session_state
    if state["sampling_named_order"] is not None:
        state[ROWS] = list(ORDERS[state["sampling_named_order"]])
        for name in PROCESSOR_NAMES:
            state[_key(name, "on")] = True


def _move(name: str, by: int) -> None:
    rows: list[str] = st.session_state[ROWS]
    at = rows.index(name)
    rows[at], rows[at + by] = rows[at + by], rows[at]


def complaint(name: str, value: Any) -> str | None:
    """Why this one value cannot be used."""
    if value is None:
        return "A number is needed here."
    try:
        SamplingParams(**{name: value})
    except BadInputError as error:
        return str(error)
    return None


def _key(name: str, part: str = "value") -> str:
    return f"sampling_{name}_{part}"
