"""What a token is to the model, one row of a matrix: the rows as they go in, their nearest ones, the way back out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import streamlit as st

from miniinfer.errors import BadInputError
from miniinfer.figures.sampling.words import percent
from miniinfer.figures.tokenizer.embedding import (
    describe_backwards,
    describe_rows,
    describe_unembed,
    neighbours_table,
    row_pair_table,
    rows_table,
    values_table,
    window_of,
    windows,
)
from miniinfer.figures.tokenizer.plots import IN_SCALE, colour_limit, neighbours_figure, rows_figure
from miniinfer.provenance import Provenance
from miniinfer.trace.embedding import MatrixFacts, backwards, embed_ids, neighbours, read_matrices, unembed_row
from miniinfer.trace.live_run import LiveRun
from miniinfer.ui.figure import draw_figure
from miniinfer.ui.sessions.in_parts import do_in_parts
from miniinfer.ui.table_twin import draw_table_twin, opened_fold
from miniinfer.ui.tokenizer.look import TextLook, remembered

T = TypeVar("T")

WINDOW = 16  # rows of the heat map at a time
NEAREST = 12
WAITS = (
    "The rows of the embedding lie in the model's weights, which are being loaded; how far they are stands at the top. "
    "The rows that these ids select will stand here, their norms, the nearest rows, and the unembed matrix beside them."
)


def draw_embedding(look: TextLook) -> None:
    """Everything is computed in the engine's thread, from the weights that it runs with."""
    run = look.run
    model: Any = run.engine.model if isinstance(run, LiveRun) else look.session.model
    if model is None:
        st.text(look.session.status.text if look.session.status.state == "failed" else WAITS)
        return
    ids = look.encoding.ids
    if not ids:
        raise BadInputError("The text has no tokens: type something at the left.")
    position = _choose(look, ids)
    first, stop = window_of(position, len(ids), WINDOW)
    embedded = _in_engine(look, lambda: embed_ids(model, ids[first:stop]))
    token_id = ids[position]
    facts = remembered("matrices", model, None, lambda: do_in_parts(
        partial(_in_engine, look), read_matrices(model), "Reading both matrices, once for each model"
    ))  # fmt: skip
    found = remembered(
        "near", model, token_id, lambda: _in_engine(look, lambda: neighbours(model, token_id, NEAREST, facts))
    )
    left, right = st.columns([8, 5], gap="medium")
    with left:
        st.markdown("**X, as it goes into the first layer**")
        draw_figure(
            rows_figure(embedded, first, look.text, position, look.colours), "tokenizer_rows",
            "The embedding rows of the tokens, one row a token and one column a dimension", name="embedding_rows",
        )
        st.caption(
            f"Each id selects one row of {model.config.vocab_size:,}, kept as {embedded.storage}; these are the "
            f"numbers it stands for. The colour scale ends at ±{colour_limit(embedded):.3g}, which holds "
            f"{percent(IN_SCALE)} of the values shown; what lies beyond has the end's colour. Computed from the "
            "weights."
        )
    with right:
        st.markdown("**Which rows of the whole vocabulary lie nearest?**")
        st.text(f"“{look.text(token_id)}”, id {token_id:,}, norm {embedded.norms[position - first]:.4f}")
        if len(found.ids):
            draw_figure(
                neighbours_figure(found, look.text, look.colours), "tokenizer_near",
                f"Nearest rows of the embedding to “{look.text(token_id)}”, id {token_id:,}, by cosine",
                name="nearest_rows",
            )
        else:
            st.text("All numbers of this row are 0: it points nowhere, so no row lies nearer to it than another.")
    other = remembered("row", model, token_id, lambda: _in_engine(look, lambda: unembed_row(model, token_id, facts)))
    mine = embedded.rows[position - first]
    _way_out(look, facts, describe_rows(mine, other, look.text(token_id)))
    folded = opened_fold("Tables: norms, values, nearest rows, both matrices", "tokenizer_embedding_fold")
    if folded is None:
        return
    with folded:
        draw_table_twin(rows_table(embedded, look.text, first), "tokenizer_norms", Provenance.COMPUTED, "norms.csv")
        draw_table_twin(values_table(embedded, look.text, first), "tokenizer_values", Provenance.COMPUTED, "X.csv")
        draw_table_twin(neighbours_table(found, look.text), "tokenizer_nearest", Provenance.COMPUTED, "nearest.csv")
        draw_table_twin(row_pair_table(mine, other), "tokenizer_pair", Provenance.COMPUTED, "rows.csv")


def _choose(look: TextLook, ids: list[int]) -> int:
    """A page of the tokens if there are many, and the token whose row is looked at."""
    starts = windows(ids, WINDOW)
    pages, tokens = st.columns([1, 3])
    first = 0
    if len(starts) > 1:
        if st.session_state.get("tokenizer_window") not in starts:
            st.session_state["tokenizer_window"] = 0
        first = pages.selectbox(
            "Positions", starts, key="tokenizer_window", format_func=lambda i: f"{i} to {min(len(ids), i + WINDOW) - 1}"
        )
    places = list(range(first, min(len(ids), first + WINDOW)))
    if st.session_state.get("tokenizer_position") not in places:
        st.session_state["tokenizer_position"] = places[min(1, len(places) - 1)]
    with tokens if len(starts) > 1 else st.container():
        chosen: int = st.selectbox(
            "Token", places, key="tokenizer_position", format_func=lambda i: f"{i}: {look.text(ids[i])}, id {ids[i]}"
        )
    return chosen


def _way_out(look: TextLook, facts: MatrixFacts, rows: str) -> None:
    """The unembed matrix, compared row by row, and the newest logit taken apart."""
    st.markdown("**And on the way out?**")
    st.text(f"{describe_unembed(facts.check)}\n{rows}")
    run = look.run
    if isinstance(run, LiveRun):
        step = look.session.timeline.cursor
        found = look.session.look([run], lambda: backwards(run, step))
        if found is not None:
            st.text(describe_backwards(found, look.text, facts.check.tied, run.info.dtype))


def _in_engine(look: TextLook, question: Callable[[], T]) -> T:
    return look.session.host.worker.call(question, key=look.session.session_id)
