"""All heads sorted by what they do, on this run or on a text that repeats; a click chooses the head."""

from __future__ import annotations

from collections import Counter

import streamlit as st

from miniinfer.figures.attention.heads_plots import heads_map
from miniinfer.figures.attention.tables import heads_table
from miniinfer.figures.sampling.words import percent
from miniinfer.provenance import Provenance
from miniinfer.trace.attention.head_kinds import FEWEST_ROWS, KINDS, MEANINGS, MIXED, THRESHOLDS, HeadScores
from miniinfer.trace.attention.head_scores import (
    PROBE_TOKENS,
    HeadScoreBook,
    probe_ids,
    probe_scores,
    sampled_positions,
)
from miniinfer.ui.attention.look import Look, choose_head, head_picker
from miniinfer.ui.attention.marked_table import draw_marked_table, marked_row
from miniinfer.ui.figure import draw_figure
from miniinfer.ui.room import more_rows, roomy
from miniinfer.ui.table_twin import ROW, draw_saves, whole_rows

RUN, PROBE = "this run", "a text that repeats"
TABLE, ORDER = "attention_heads_table", "attention_heads_order"  # the table, and the head of each of its lines
SHARE = st.column_config.NumberColumn(format="percent", width=96)


def draw_heads(look: Look) -> None:
    left, right = st.columns([1, 2], vertical_alignment="bottom")
    source = left.segmented_control(
        "Measured on", [RUN, PROBE], default=RUN, key="attention_heads_on", required=True, persist_state="session",
        help=f"The text that repeats: {PROBE_TOKENS} tokens spread over the vocabulary, twice. No habit of a language "
        "explains what a head does there, and every token of the second half has an earlier occurrence.",
    )
    if source == PROBE and look.live is None:
        st.text("The text that repeats is run when the model is loaded; choose this run to see its recorded rows.")
        return
    scores = _probe(look) if source == PROBE else book_of(look).scores_at(look)
    kinds = [kind for kind in KINDS if scores.rows[kind] >= FEWEST_ROWS[kind]]
    if not kinds:
        st.text("There are too few positions yet to tell what a head does: step on, or choose the text that repeats.")
        return
    where = "probe" if source == PROBE else "run"
    # Always the same kinds and default: Streamlit would forget the choice if they changed with the step.
    first = st.session_state.setdefault(f"attention_first_kind_{where}", kinds[0])
    wanted = right.segmented_control(
        "The map shows the weight on", KINDS, default=first, key=f"attention_kind_{where}", required=True,
        persist_state="session",
    ) or first  # fmt: skip
    kind = wanted if wanted in kinds else kinds[0]
    instead = "" if kind == wanted else f" Too few rows here can show {wanted}; the map shows {kind}."
    st.text(_sentence(look, scores, source or RUN) + instead)
    figure = heads_map(
        scores.scores[kind], (look.layer, look.head), f"on {kind}", look.colours, most=1.0,
        height=roomy(300, 2),
    )
    draw_figure(
        figure, "attention_heads_map", f"Weight on {kind}, all heads, on {source or RUN}", on_pick=head_picker(look)
    )
    table = heads_table(scores, look.run.info.model.group_size)
    table = table.sort_values(kind, ascending=False, kind="stable", ignore_index=True)
    order = list(zip(table["layer"].tolist(), table["head"].tolist(), strict=True))
    st.session_state[ORDER] = order
    draw_marked_table(
        table, TABLE, order.index((look.layer, look.head)), height=whole_rows(6 + more_rows(ROW, 2)),
        column_config=dict.fromkeys(KINDS, SHARE), on_select=_from_table, selection_mode="single-row-required",
    )
    left, *places = st.columns([8, 2, 2], vertical_alignment="center")
    exact = look.live is not None or source == PROBE
    left.caption(
        "A click on a square or on a line chooses the head. Sorted by the kind shown; a click on a column's name "
        f"sorts by that. Figures: {(Provenance.COMPUTED if exact else Provenance.RECORDED).value}"
        f"{'' if exact else ', from weights of 8 bits'}."
    )
    draw_saves(table, "attention_heads", "heads.csv", places)
    with st.expander("What do the names mean?"):
        for name in KINDS:
            st.text(f"{name}: at least {percent(THRESHOLDS[name])} of the weight, on average, {MEANINGS[name]}.")
        st.text(
            f"A head is named by the first of these that it reaches, in this order, else “{MIXED}”. The thresholds "
            "are conventions; the table has the numbers. A kind that fewer than "
            f"{FEWEST_ROWS['induction']} rows can show (induction, same token), or {FEWEST_ROWS['local']} (the "
            "others), is left empty."
        )


class RunScores:
    """The book of the run looked at, kept over reruns: a step adds its own row only."""

    def __init__(self, look: Look) -> None:
        self.run_id = look.run.info.run_id
        self._book = HeadScoreBook(look.run)

    def scores_at(self, look: Look) -> HeadScores:
        return look.ask(lambda: self._book.scores(look.length))


def book_of(look: Look) -> RunScores:
    """Ids of runs are never used again within a session, so the id tells whether the book is this run's."""
    kept = st.session_state.get("attention_book")
    if not isinstance(kept, RunScores) or kept.run_id != look.run.info.run_id:
        kept = st.session_state["attention_book"] = RunScores(look)
    return kept


def _probe(look: Look) -> HeadScores:
    """Once for each model: the text is fixed."""
    run = look.live
    assert run is not None
    info = run.info
    key = (info.model_name, info.device, info.dtype)
    kept = st.session_state.get("attention_probe")
    if kept is None or kept[0] != key:
        ids = probe_ids(info.model.vocab_size, lambda i: run.describe(i).control)
        with st.spinner(f"Running {len(ids)} tokens beside the run…"):
            kept = st.session_state["attention_probe"] = (key, look.ask(lambda: probe_scores(run.engine, ids)))
    scores: HeadScores = kept[1]
    return scores


def _sentence(look: Look, scores: HeadScores, source: str) -> str:
    model = look.run.info.model
    names = Counter(scores.kind_of(i, j) for i in range(model.num_layers) for j in range(model.num_heads))
    counted = ", ".join(f"{names[kind]} {kind}" for kind in (*KINDS, MIXED) if names[kind])
    if source == PROBE:
        on = f"On {PROBE_TOKENS} tokens, twice"
    else:
        rows = len(sampled_positions(look.length))
        on = f"On all {rows} rows of this run" if rows == look.length else (
            f"On {rows} of {look.length:,} rows of this run, in blocks spread evenly"
        )  # fmt: skip
    told = f"{on}: {counted}."
    missing = [kind for kind in ("induction", "same token") if scores.rows[kind] < FEWEST_ROWS[kind]]
    if missing:
        told += f" Too little repeats here to tell {' or '.join(missing)}: choose {PROBE}."
    return told


def _from_table() -> None:
    (chosen, row), order = marked_row(TABLE), st.session_state.get(ORDER, [])
    if chosen and row is not None and row < len(order):
        choose_head(*order[row])
