"""The tokenizer page: a text at the left, at the right what becomes of it on the way to ids and into the model."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from miniinfer.errors import MiniInferError
from miniinfer.ui.frame import BODY
from miniinfer.ui.sessions.session import Session
from miniinfer.ui.tokenizer.compare import draw_compare
from miniinfer.ui.tokenizer.costs import draw_costs
from miniinfer.ui.tokenizer.embedding import draw_embedding
from miniinfer.ui.tokenizer.find import draw_find
from miniinfer.ui.tokenizer.input import draw_input
from miniinfer.ui.tokenizer.look import TextLook, TextSide, look_at, text_side
from miniinfer.ui.tokenizer.parts import draw_characters, draw_segments
from miniinfer.ui.tokenizer.stages import draw_stages
from miniinfer.ui.views import draw_views

VIEWS: dict[str, Callable[[TextLook], None]] = {
    "Stages": draw_stages, "Segments": draw_segments, "Characters": draw_characters, "Languages": draw_costs,
    "Look up": draw_find, "Compare": draw_compare, "Embedding": draw_embedding,
}  # fmt: skip


def draw_tokenizer(session: Session) -> None:
    """The text is the prompt of the run in view until it is changed here; no run is ever touched."""

    @st.fragment(key=BODY)
    def body() -> None:
        with st.container(key="page_body"), st.container(key="tokenizer"):
            st.title("How does the text become tokens?", anchor=False)
            try:
                side = text_side(session)
            except MiniInferError as error:
                st.text(str(error))
                st.text("Every stage of the tokenizer, its vocabulary and the embedding will stand here then.")
                return
            _draw(session, side)

    body()


def _draw(session: Session, side: TextSide) -> None:
    run = session.timeline.current
    assert run is not None  # a session always has a run: the recorded example at the least
    left, right = st.columns([4, 13], gap="medium")
    with left, st.container(key="tokenizer_input"):
        wanted = draw_input(run, side)
        _facts(side)
    with right:
        chosen = draw_views("tokenizer_view", list(VIEWS), "Stages")
        try:
            look = look_at(session, run, side, wanted)
            VIEWS[chosen](look)
        except MiniInferError as error:
            with st.container(key="tokenizer_error"):
                st.text(str(error))


def _facts(side: TextSide) -> None:
    vocabulary = side.tokenizer.vocabulary
    start = "put in front of a raw prompt" if vocabulary.add_bos else "none put in front"
    st.text(
        f"{side.name}: byte-level BPE, {side.tokenizer.vocab_size:,} ids, {len(vocabulary.merges):,} merges, "
        f"{len(vocabulary.control):,} control tokens, pre-tokenizer “{vocabulary.pre}”, start token: {start}. "
        "Read from the model's file."
    )

