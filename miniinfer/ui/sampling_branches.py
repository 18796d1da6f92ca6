"""The tree of runs: walk it, name a branch, hold two side by side, type a continuation."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.sampling_tables import tree_table
from miniinfer.provenance import Provenance
from miniinfer.trace.run import Run
from miniinfer.trace.tree import tree_of
from miniinfer.ui.sampling_look import Look, run_action
from miniinfer.ui.table_twin import draw_table_twin
from miniinfer.ui.two_columns import draw_comparison

MOST_TYPED = 64  # tokens; each is a step of the model
PROBABILITY = st.column_config.NumberColumn(format="%.3g")
COLUMNS = {
    "": st.column_config.TextColumn(width=28, help="The run you are in."),
    "name": st.column_config.TextColumn(width=150), "run": st.column_config.TextColumn(width=72),
    "model gave": PROBABILITY, "settings gave": PROBABILITY,
    "first difference": st.column_config.NumberColumn(help="First output token, from 1, that differs from the trunk."),
    "KV bytes": st.column_config.NumberColumn(format="localized", help="All blocks this run holds."),
    "of them shared": st.column_config.NumberColumn(
        format="localized",
        help="In blocks that its trunk holds too: in memory once. One of the two that writes into a block copies it.",
    ),
}  # fmt: skip


def draw_branches(look: Look) -> None:
    session = look.session
    _continuation(look)
    st.markdown("**Which runs are there, and where did they part?**")
    runs = list(session.timeline)
    nodes = session.look(runs, lambda: tree_of(runs))
    frame = tree_table(nodes, look.run.info.run_id, look.text)
    picked = st.dataframe(
        frame, key="sampling_tree", hide_index=True, on_select="rerun", selection_mode="single-row",
        column_config=COLUMNS, row_height=28, width="stretch", height="content", placeholder="",
    )
    rows = picked["selection"]["rows"]
    chosen = nodes[rows[0]].run if rows and rows[0] < len(nodes) else None
    if chosen is None:
        st.caption("Choose a row to open that run, name it or hold it beside the one you are in.")
    else:
        _chosen(look, chosen)
    with st.expander("Tree as CSV"):
        draw_table_twin(frame, "sampling_tree", Provenance.COMPUTED, "tree.csv")


def _chosen(look: Look, chosen: Run) -> None:
    session, run_id = look.session, chosen.info.run_id
    current = run_id == look.run.info.run_id
    with st.form("sampling_rename", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.text_input(f"Name of {run_id}", value=chosen.info.name, max_chars=40, key=f"sampling_name_{run_id}")
        if st.form_submit_button("Rename"):
            run_action(lambda: session.rename(run_id, name))
    if current:
        st.caption("This is the run you are in; choose another row to open it or to compare.")
        return
    if st.button(f"Open {run_id}", key="sampling_open", type="primary"):
        run_action(lambda: session.timeline.open(run_id))
    if st.toggle(f"Hold {run_id} beside {look.run.info.run_id}", key="sampling_beside"):
        draw_comparison(session, look.run, chosen)


def _continuation(look: Look) -> None:
    session, step = look.session, look.place.step
    form = st.form("sampling_continuation", border=False, clear_on_submit=True)
    with form, st.container(horizontal=True, vertical_alignment="bottom"):
        typed = st.text_input(
            f"Type how the text goes on from step {step}", key="sampling_typed",
            help="Your text becomes tokens, and a branch takes them one after another. Words usually carry their "
            "space in front.",
        )
        start = st.form_submit_button("Branch with this")
    if not start:
        return
    ids = look.model.tokenizer.encode(typed, parse_special=False) if typed else []
    if len(ids) > MOST_TYPED:
        st.text(f"That is {len(ids)} tokens; at most {MOST_TYPED} are taken at once. Shorten it, or type it in parts.")
        return
    shown = f"step {step}: {typed!r}"
    run_action(lambda: session.continue_with(step, ids, shown if len(shown) <= 40 else shown[:39] + "…"))
