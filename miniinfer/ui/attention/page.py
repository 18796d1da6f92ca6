"""The attention page: head and query at the top, one of five views below, on the workspace's run and cursor."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from miniinfer.errors import MiniInferError
from miniinfer.figures.attention.words import RECORDED, SINK, reads_sentence, share_of
from miniinfer.trace.run import Run
from miniinfer.ui.attention.heads import draw_heads
from miniinfer.ui.attention.knock_out import draw_knock_out
from miniinfer.ui.attention.look import HEAD, LAYER, POSITION, Look
from miniinfer.ui.attention.mix import draw_mix
from miniinfer.ui.attention.rope import draw_rope
from miniinfer.ui.attention.scores import draw_scores
from miniinfer.ui.frame import BODY
from miniinfer.ui.recorded_words import when_live
from miniinfer.ui.sessions.session import Session
from miniinfer.ui.views import draw_views

VIEWS: dict[str, Callable[[Look], None]] = {
    "Scores to weights": draw_scores, "Value mix": draw_mix, "RoPE": draw_rope, "All heads": draw_heads,
    "Knock out": draw_knock_out,
}  # fmt: skip
TITLE = "What does one head read?"
WITHOUT_MODEL = ("Scores to weights", "All heads")


def draw_attention(session: Session) -> None:
    """Linked to the session's run and cursor: the transport in the frame moves what is shown here."""

    @st.fragment(key=BODY)
    def body() -> None:
        with st.container(key="page_body"), st.container(key="attention"):
            run = session.timeline.current
            cursor = session.timeline.cursor
            if run is None or cursor == 0 or not run.steps:
                st.title(TITLE, anchor=False)
                st.text(
                    "Nothing has gone through the model yet. Press the arrow key → or the step button above: a step "
                    "computes queries, keys and values, and they will be taken apart here."
                )
                return
            try:
                _draw(session, run, run.steps[cursor - 1].context_len)
            except MiniInferError as error:  # queries that were dropped, a cache without room
                st.text(str(error))

    body()


def _draw(session: Session, run: Run, length: int) -> None:
    title, layer_at, head_at, position_at, first_at = st.columns([9, 3, 3, 4, 4], vertical_alignment="bottom")
    title.title(TITLE, anchor=False)
    model = run.info.model
    layer, head = _head_fields(run, layer_at, head_at)
    chosen = position_at.number_input(
        "Query position", 0, length - 1, value=None, key=_kept(POSITION, length - 1), placeholder="newest",
        help="Empty: the newest position of the step, so that the page follows the transport.",
        persist_state="session",
    )
    hide_first = first_at.toggle(
        "Hide first token", key="attention_hide_first", persist_state="session",
        help="Takes position 0 out of pictures and tables; no number changes.",
    )
    look = Look(session, run, length, layer, head, length - 1 if chosen is None else chosen, hide_first)
    row = look.weights
    kv = f"KV head {look.kv_head}" + (f" with {model.group_size - 1} others" if model.group_size > 1 else "")
    with st.container(key="attention_head_line", horizontal=True, vertical_alignment="center"):
        st.text(
            f"Layer {layer}, head {head} reads {kv}. The query is “{look.text(look.position)}” at {look.position}: "
            f"{reads_sentence(row, look.text, about=look.live is None)}"
        )
        with st.popover("Why the first token?", key="attention_sink"):
            st.text(SINK)
            if look.live is not None:
                st.text(_sink_here(look))
    view = draw_views("attention_view", list(VIEWS), "Scores to weights")
    if look.live is None and view not in WITHOUT_MODEL:
        st.text(RECORDED + when_live(session))
        if session.status.state == "failed":
            st.text(session.status.text)
        return
    VIEWS[view](look)


def _head_fields(run: Run, layer_at: DeltaGenerator, head_at: DeltaGenerator) -> tuple[int, int]:
    """Layer and head; at first the one that the run itself suggests."""
    model, first = run.info.model, run.info.default_head or (0, 0)
    # A click on a map sets both, which Streamlit warns of where a field has a default of its own.
    st.session_state.setdefault(LAYER, first[0])
    st.session_state.setdefault(HEAD, first[1])
    layer = layer_at.number_input(
        "Layer", 0, model.num_layers - 1, key=_kept(LAYER, model.num_layers - 1), persist_state="session"
    )
    head = head_at.number_input(
        "Head", 0, model.num_heads - 1, key=_kept(HEAD, model.num_heads - 1), persist_state="session"
    )
    return int(layer), int(head)


def _kept(key: str, most: int) -> str:
    """The key, after what was chosen in another run or step has been brought into the range of this one."""
    value = st.session_state.get(key)
    if isinstance(value, int) and value > most:
        st.session_state[key] = most
    return key


def _sink_here(look: Look) -> str:
    """The claim above, with the numbers of this row."""
    lengths = np.linalg.norm(look.row.values, axis=1)
    if len(lengths) < 2:
        return "This row sees the first token only."
    return (
        f"Here: the first token's value has the length {lengths[0]:.3g}, the median of the others is "
        f"{float(np.median(lengths[1:])):.3g}; with {share_of(float(look.row.pattern[0]))} of the weight it makes "
        f"{share_of(float(look.row.shares[0]))} of z."
    )
