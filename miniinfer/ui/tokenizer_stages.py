"""The way of the text in one picture: what each stage did, its tokens, and the merges of one piece step by step."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.tokenizer_payload import pieces, stages, strip
from miniinfer.figures.tokenizer_tables import merges_table, pieces_table, tokens_table
from miniinfer.figures.tokenizer_words import NO_NORMALISATION, notes, summary
from miniinfer.provenance import Provenance
from miniinfer.tokenization.segments import writers_of
from miniinfer.ui.mount import mount_tokenizer
from miniinfer.ui.table_twin import draw_table_twin
from miniinfer.ui.tokenizer_look import TextLook


def draw_stages(look: TextLook) -> None:
    """A click on a token shows its piece; that needs no answer of the server."""
    encoding = look.encoding
    writers = writers_of(encoding.tokens, look.segments)
    mount_tokenizer("tokenizer_stages", {
        "stages": stages(encoding, NO_NORMALISATION, look.tokenizer.vocabulary.pre),
        "strips": [strip(encoding, writers, "", f"{summary(encoding)}. Choose a token to see its piece below.")],
        "pieces": pieces(encoding),
    })  # fmt: skip
    for note in notes(look.wanted.text):
        st.caption(note)
    with st.expander("Tables: tokens, pieces, merges"):
        named = {
            "Tokens": lambda: tokens_table(encoding, look.segments),
            "Pieces": lambda: pieces_table(encoding),
            "Merges": lambda: merges_table(encoding),
        }
        which = st.segmented_control(
            "Table", list(named), default="Tokens", key="tokenizer_table", required=True, label_visibility="collapsed"
        )
        name = which or "Tokens"
        draw_table_twin(named[name](), f"tokenizer_{name.lower()}", Provenance.COMPUTED, f"{name.lower()}.csv")
