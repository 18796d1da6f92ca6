"""The way of the text in one picture: what each stage did, its tokens, and the merges of one piece step by step."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import streamlit as st

from miniinfer.figures.tokenizer.payload import pieces, stages, strip
from miniinfer.figures.tokenizer.tables import merges_table, pieces_table, tokens_table
from miniinfer.figures.tokenizer.words import NO_NORMALISATION, notes, summary
from miniinfer.tokenization.segments import writers_of
from miniinfer.ui.mount import mount_tokenizer
from miniinfer.ui.table_twin import opened_fold
from miniinfer.ui.tokenizer.look import TextLook, draw_rows


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
    if (folded := opened_fold("Tables: tokens, pieces, merges", "tokenizer_tables")) is not None:
        with folded:
            _draw_tables(look)


def _draw_tables(look: TextLook) -> None:
    encoding, segments = look.encoding, look.segments
    made: dict[str, tuple[Callable[[int | None], pd.DataFrame], int]] = {
        "Tokens": (lambda most: tokens_table(encoding, segments, most), len(encoding.tokens)),
        "Pieces": (lambda most: pieces_table(encoding, most), len(encoding.pieces)),
        "Merges": (
            lambda most: merges_table(encoding, most), sum(len(piece.merging.steps) for piece in encoding.pieces)
        ),
    }  # fmt: skip
    name = st.segmented_control(
        "Table", list(made), default="Tokens", key="tokenizer_table", required=True, label_visibility="collapsed"
    ) or "Tokens"  # fmt: skip
    draw_rows(*made[name], f"tokenizer_{name.lower()}", f"{name.lower()}.csv")
