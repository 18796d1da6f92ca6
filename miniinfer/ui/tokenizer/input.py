"""The tokenizer page's text: the run's prompt until it is changed. Nothing that is typed here touches a run."""

from __future__ import annotations

import streamlit as st

from miniinfer.tokenization.escapes import unescape
from miniinfer.trace.run import Run
from miniinfer.ui.tokenizer.look import TextSide, Wanted

TEXT, KIND, SPECIAL, ESCAPES, SAMPLE = (
    "tokenizer_text", "tokenizer_kind", "tokenizer_special", "tokenizer_escapes", "tokenizer_sample",
)  # fmt: skip
SOURCE = "tokenizer_source"  # the prompt that the field was filled with last: (text, raw or chat)

SAMPLES = {
    "Line ends: \\r\\n beside \\n": "one\\r\\ntwo\\nthree\\n\\n",
    "Tabs and runs of blanks": "\\tif x:\\n\\t\\treturn    y  # z   ",
    "One emoji, seven code points": "a family 👨\\u200d👩\\u200d👧\\u200d👦 and a hand 👋🏽",
    "The same é twice: composed, and not": "caf\u00e9 cafe\\u0301",
    "Right to left": "שלום, العالم 123",
    "Invisible: zero width, soft hyphen, BOM": "zero\\u200bwidth so\\u00adft \\ufeffmark",
    "Numerals": "1234567 3.14 ½ ② ٣",
    "A control token, spelled": "A<|im_end|>B",
    "One letter, many times": "a" * 60,
}


def draw_input(run: Run, side: TextSide) -> Wanted:
    """Draw the fields; give back what they say."""
    _follow(run)
    state = st.session_state
    st.selectbox(
        "Hard texts", list(SAMPLES), index=None, key=SAMPLE, placeholder="Choose one that is hard",
        on_change=_take_sample,
    )
    typed = st.text_area(
        "Text", key=TEXT, height=150, persist_state="session",
        help="Changes nothing about the run. A text field makes every line end a single \\n; escapes can say \\r.",
    )
    kind = st.segmented_control(
        "The text is", ["raw", "chat"], key=KIND, required=True, width="stretch", persist_state="session",
        disabled=side.template is None,
        help="raw: the tokens of the text itself. chat: the text becomes one message of the chat template."
        if side.template is not None else "This model has no chat template.",
    )
    chat = kind == "chat" and side.template is not None
    special = st.toggle(
        "Control tokens in it are real", key=SPECIAL, persist_state="session", disabled=chat,
        help="In a raw prompt, <|im_end|> spelled out is the control token. In a chat message it always stays text: "
        "otherwise a user could end the own turn and speak for the system.",
    )
    escapes = st.toggle(
        "Escapes count as characters", key=ESCAPES, persist_state="session",
        help="\\r \\n \\t \\0 \\\\ \\xHH \\uHHHH \\UHHHHHHHH",
    )
    changed = (state[TEXT], state[KIND]) != state[SOURCE] or escapes or not state[SPECIAL]
    st.button(
        "Back to the run's prompt", key="tokenizer_reset", width="stretch", disabled=not changed, on_click=_fill,
        help=None if changed else "This is the run's prompt.",
    )
    return Wanted(unescape(typed) if escapes else typed, chat, special and not chat)


def _follow(run: Run) -> None:
    """Fill the field when the page is new, and when another run comes into view while the old prompt stands in it."""
    state = st.session_state
    source = (run.info.prompt, "chat" if run.info.chat else "raw")
    before = state.get(SOURCE)
    if before is not None and before != source and (state.get(TEXT), state.get(KIND)) != before:
        state[SOURCE] = source  # the text is the user's own: the button leads to the new prompt
        return
    if before != source:
        state[SOURCE] = source
        _fill()


def _fill() -> None:
    state = st.session_state
    state[TEXT], state[KIND] = state[SOURCE]
    state[SPECIAL], state[ESCAPES], state[SAMPLE] = True, False, None


def _take_sample() -> None:
    state = st.session_state
    if state[SAMPLE] is not None:
        state[TEXT], state[ESCAPES] = SAMPLES[state[SAMPLE]], True
