"""Any token of the vocabulary: where it ranked, where and why it fell, and a branch that takes it."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.sampling.tables import tokens_table
from miniinfer.figures.sampling.token_search import search_tokens
from miniinfer.provenance import Provenance
from miniinfer.trace.run import ForceToken
from miniinfer.ui.page import run_action
from miniinfer.ui.room import more_rows
from miniinfer.ui.sampling.look import Look, probabilities, texts_of
from miniinfer.ui.table_twin import ROW, draw_saves, whole_rows

MOST = 50
TABLE = "sampling_find_table"  # the number of the table in view
WHOLE_ROWS = 18  # in view at once


def draw_find(look: Look) -> None:
    """Without a search: the drawn token and the best others, cut ones among them."""
    vocab = look.now.vocab_size
    query = st.text_input(
        f"Search all {vocab:,} tokens by text or id", key="sampling_query", persist_state="session",
        placeholder="for example: London, or 7042",
    )
    if query:
        found = search_tokens(texts_of(look.model), query, look.now.raw.probs)
        more = f"; the first {MOST} stand here, all in the files" if len(found) > MOST else ""
        st.caption(f"{len(found):,} tokens fit{more}." if found else "No token fits; a longer text is several tokens.")
    else:
        found = look.now.order.tolist()
        if look.place.token_id not in found[:MOST]:
            found.remove(look.place.token_id)
            found.insert(0, look.place.token_id)
        st.caption(
            f"The best {min(MOST, vocab)}, those that can be drawn first. Choose a row to force its token. The files "
            f"hold all {vocab:,}."
        )
    shown = found[:MOST]
    frame = tokens_table(look.now, shown, look.text)
    place = (look.run.info.run_id, look.place.step, look.params, query)
    high = WHOLE_ROWS + more_rows(ROW)
    picked = st.dataframe(
        frame, key=_table_of(place), hide_index=True, on_select="rerun", selection_mode="single-row",
        column_config={
            **probabilities("raw probability", "used probability"),
            "rank": st.column_config.NumberColumn(format="localized", help="By the model's own logits, from 1."),
            "id": st.column_config.NumberColumn(format="%d"), "logit": st.column_config.NumberColumn(format="%.3f"),
            "why": st.column_config.TextColumn(width=340),
        },
        row_height=ROW, height=whole_rows(high) if len(shown) > high else "content", width="stretch",
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
    draw_saves(lambda: tokens_table(look.now, found, look.text), "sampling_find", "tokens.csv", saves)
    if force and chosen is not None:
        run_action("sampling", lambda: look.session.branch(ForceToken(step, chosen)))


def _table_of(place: object) -> str:
    """The key of a table of its own for each place: a row that was chosen would be another token elsewhere."""
    state = st.session_state
    if state.get("sampling_find_place") != place:
        state["sampling_find_place"] = place
        state[TABLE] = state.get(TABLE, 0) + 1
    return f"sampling_find_rows_{state[TABLE]}"
