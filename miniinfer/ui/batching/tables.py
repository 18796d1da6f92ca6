"""The picture as tables: every step, every row, every request, the blocks of one step, each with its CSV."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.batching.tables import blocks_table, requests_table, rows_table, timeline_table
from miniinfer.models.display import visible
from miniinfer.provenance import Provenance
from miniinfer.ui.batching.look import BatchLook
from miniinfer.ui.room import more_rows
from miniinfer.ui.table_twin import ROW, draw_table_twin, whole_rows

ONE = st.column_config.NumberColumn(format="%.1f")
PROBABILITY = st.column_config.NumberColumn(format="%.4f")
BOTH = {Provenance.MEASURED: "times", Provenance.COMPUTED: "all else"}
ROWS = 20  # without scrolling


def draw_tables(look: BatchLook) -> None:
    trace = look.trace
    if trace is None or not trace.steps:
        st.text("The tables will fill as the batch is stepped in the first view.")
        return
    height = whole_rows(ROWS + more_rows(ROW))
    with st.container(horizontal=True, vertical_alignment="center"):
        chosen = st.segmented_control(
            "Table", ["Timeline", "Rows", "Requests", "Blocks"], default="Timeline", key="batching_table",
            required=True, label_visibility="collapsed", persist_state="session",
        )
        last = len(trace.steps)
        step = last
        if chosen in ("Requests", "Blocks"):
            key = f"batching_at_{look.run_id}_{last}"
            step = int(st.number_input("After step", 1, last, last, 1, key=key, width=160))
    if chosen == "Rows":
        columns = dict.fromkeys(("probability", "raw probability", "margin", "coin"), PROBABILITY)
        table = rows_table(trace)
        shown = table.assign(token=table["token"].map(visible))  # a file has the token as it is
        draw_table_twin(
            shown, "batching_rows", Provenance.COMPUTED, "batch-rows.csv", columns=columns, height=height,
            csv=lambda: table,
        )
    elif chosen == "Requests":
        columns = {"TTFT ms": ONE, "TPOT ms": ONE}
        draw_table_twin(requests_table(trace, step), "batching_requests", BOTH, "batch-requests.csv", columns=columns)
    elif chosen == "Blocks":
        sources = {Provenance.COMPUTED: f"the pool after step {step}"}
        draw_table_twin(blocks_table(trace, step), "batching_blocks", sources, "batch-blocks.csv", height=height)
    else:
        columns = {"ms": ONE, "end ms": ONE}
        draw_table_twin(
            timeline_table(trace), "batching_timeline", BOTH, "batch-timeline.csv", columns=columns, height=height
        )
