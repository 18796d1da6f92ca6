"""Any token of the vocabulary: where it ranked, where and why it fell, and a branch that takes it."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.sampling_tables import tokens_table
from miniinfer.figures.token_search import search_tokens
from miniinfer.provenance import Provenance
from miniinfer.trace.run import ForceToken
from miniinfer.ui.page import run_action
from miniinfer.ui.sampling_look import Look, probabilities, texts_of
from miniinfer.ui.table_twin import ROW, draw_saves

MOST = 50
WHOLE_ROWS, HEADER = 18, 35  # rows in view at once; px of the line above them


def draw_find(look: Look) -> None:
    """Without a search: the drawn token and the best others, cut ones among them."""
    vocab = look.now.vocab_size
    query = st.text_input(
        f"Search all {vocab:,} tokens by text or id", key="sampling_query", persist_state="session",
        placeholder="for example: London, or 7042",
    )
    if query:
        found = search_tokens(texts_of(look.model), query, look.now.raw.probs)
        more = f"; the first {MOST} stand here" if len(found) > MOST else ""
        st.caption(f"{len(found):,} tokens fit{more}." if found else "No token fits; a longer text is several tokens.")
    else:
        found = look.now.order[:MOST].tolist()
        if look.place.token_id not in found:
            found = [look.place.token_id, *found[:-1]]
        st.caption(f"The best {len(found)}, those that can be drawn first. Choose a row to force its token.")
    shown = found[:MOST]
    frame = tokens_table(look.now, shown, look.text)
    picked = st.dataframe(
        frame, key="sampling_find_rows", hide_index=True, on_select="rerun", selection_mode="single-row",
        column_config={
            **probabilities("raw probability", "used probability"),
            "rank": st.column_config.NumberColumn(format="localized", help="By the model's own logits, from 1."),
            "id": st.column_config.NumberColumn(format="%d"), "logit": st.column_config.NumberColumn(format="%.3f"),
            "why": st.column_config.TextColumn(width=340),
        },
        row_height=ROW, height=HEADER + ROW * WHOLE_ROWS + 2 if len(shown) > WHOLE_ROWS else "content", width="stretch",
    )  # fmt: skip
    rows = picked["selection"]["rows"]
    chosen = shown[rows[0]] if rows and rows[0] < len(shown) else None
    step = look.place.step
    left, *saves = st.columns([8, 2, 2], vertical_alignment="center")
    with left, st.container(horizontal=True, vertical_alignment="center"):
        force = st.button(
            f"Force it in step {step}", key="sampling_force", disabled=chosen is None, type="primary",
            help="Choose a row first." if chosen is None else "Starts a branch that takes this token here.",
        )
        if chosen is not None:
            st.text(f"{look.quoted(chosen)}, id {chosen}")
        st.caption(f"Figures: {Provenance.COMPUTED.value}.")
    draw_saves(frame, "sampling_find", "tokens.csv", saves)
    if force and chosen is not None:
        run_action("sampling", lambda: look.session.branch(ForceToken(step, chosen)))
