"""Who wrote what, and which character fell to which tokens."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.tokenizer.payload import strip
from miniinfer.figures.tokenizer.tables import characters_table, segments_table
from miniinfer.figures.tokenizer.words import summary
from miniinfer.provenance import Provenance
from miniinfer.tokenization.characters import characters_of
from miniinfer.tokenization.segments import MIXED, writers_of
from miniinfer.ui.mount import mount_tokenizer
from miniinfer.ui.table_twin import draw_table_twin
from miniinfer.ui.tokenizer.look import TextLook, draw_rows

WORDS = {
    "typed": "filled: what was typed", "template": "outlined: what the chat template wrote",
    "control": "round: control tokens",
    MIXED: "half filled: a token that reaches from the template into what was typed",
}  # fmt: skip


def draw_segments(look: TextLook) -> None:
    """Control tokens, the template's text and the user's, kept apart."""
    encoding = look.encoding
    writers = writers_of(encoding.tokens, look.segments)
    present = "; ".join(words for writer, words in WORDS.items() if writer in writers)
    fact = f"{summary(encoding)}. {present.capitalize()}."
    mount_tokenizer("tokenizer_segments", {
        "stages": [], "pieces": [],
        "strips": [strip(encoding, writers, "Who wrote which token?", fact)],
    })  # fmt: skip
    if look.wanted.chat and look.typed is None:
        st.text(
            "This model's chat template changes the message, so what was typed cannot be told from what it wrote: all "
            "plain text counts as the template's."
        )
    if look.wanted.chat:
        st.text(
            "The template is the whole truth: nothing is put in front of it. Control tokens come from the template "
            "only; their spelling in a message stays text, piece by piece."
        )
    elif look.wanted.parse_special:
        st.text("A raw prompt means what it says: control tokens that are spelled in it are the real ones.")
    else:
        st.text("Control tokens that are spelled in this text stay text.")
    draw_table_twin(
        segments_table(encoding, look.segments), "tokenizer_segment_rows", Provenance.COMPUTED, "segments.csv"
    )
    if look.wanted.chat and look.side.template is not None:
        with st.expander("The chat template, as it stands in the model's file (Jinja)"):
            st.code(look.side.template.source, language=None, wrap_lines=True)


def draw_characters(look: TextLook) -> None:
    """Every code point, the invisible ones too, with its bytes and its tokens."""
    encoding = look.encoding
    characters = characters_of(encoding.text, encoding.tokens)
    split = sum(c.split for c in characters)
    wide = sum(len(c.raw) > 1 for c in characters)
    st.markdown("**Which character fell to which tokens?**")
    st.text(
        f"{len(characters):,} code points; {wide:,} of them take more than one byte, and {split:,} are split over "
        f"tokens{', none of which is a character by itself' if split else ''}. What looks like one sign may be several "
        "code points."
    )
    draw_rows(
        lambda most: characters_table(characters, most), len(characters), "tokenizer_characters", "characters.csv"
    )
