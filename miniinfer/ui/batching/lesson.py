"""The lesson: the same requests under static and continuous batching, and with and without paging."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.batching.plots import lanes_figure, outcome_line
from miniinfer.figures.batching.tables import lanes_table, outcomes_table
from miniinfer.provenance import Provenance
from miniinfer.trace.batch.outcome import BatchOutcome
from miniinfer.ui.batching.look import BatchLook
from miniinfer.ui.batching.outcomes import measure_outcomes, words_of
from miniinfer.ui.cost.look import task
from miniinfer.ui.room import roomy
from miniinfer.ui.run_look import PLOT
from miniinfer.ui.table_twin import draw_saves, draw_table_twin

VIEW = "batching_outcomes"
HEIGHT = 350
ONE, WHOLE = st.column_config.NumberColumn(format="%.1f"), st.column_config.NumberColumn(format="%.0f")
COLUMNS = {
    "wall ms": WHOLE, "tokens/s": ONE, "mean TTFT ms": WHOLE, "mean TPOT ms": WHOLE, "wasted %": ONE,
    "KV peak bytes": st.column_config.NumberColumn(format="localized"),
}  # fmt: skip


def draw_lesson(look: BatchLook) -> None:
    trace = look.trace
    if trace is None:
        st.text("The two ways of batching will be compared here once a batch can run.")
        return
    found: tuple[BatchOutcome, ...] | None = look.result(VIEW)
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button(
            "Run all four again" if found else "Run all four", key="batching_outcomes_run",
            type="secondary" if found else "primary", disabled=task() is not None,
            help="Runs the requests of this batch four times to their end, each time in a cache of its own. The batch "
            "of the first view is not touched.",
        ):
            model, batch = look.session.batch.model(), look.session.batch
            look.begin(VIEW, lambda say: measure_outcomes(batch, model, trace.requests, trace.settings))
        if found:
            paging = st.segmented_control(
                "Memory", ["paging", "no paging"], default="paging", key="batching_paging", required=True,
                label_visibility="collapsed",
            )
    if not found:
        st.text(
            "Both ways will stand here side by side: the lanes of all requests against wall time, the slots that were "
            "computed for nothing, and a table of all four outcomes. Two switches are independent: how requests are "
            "put into batches (static or continuous), and how the cache gives out memory (in blocks as needed, or all "
            "that a request can ever need at its start)."
        )
        return
    static, continuous = (o for o in found if o.settings.paging is (paging == "paging"))
    st.markdown(f"**{verdict(static, continuous)}**")
    until = max(static.totals.wall_ms, continuous.totals.wall_ms)
    for column, outcome in zip(st.columns(2, gap="medium"), (static, continuous), strict=True):
        with column:
            st.text(outcome_line(outcome).capitalize())
            st.plotly_chart(
                lanes_figure(outcome, until, look.colours, roomy(HEIGHT)),
                key=f"batching_lanes_{outcome.settings.batching}", config=PLOT,
                alt=f"Lanes of all requests under {words_of(outcome.settings)} against wall time",
            )
    draw_table_twin(
        outcomes_table(found), "batching_outcomes",
        {
            Provenance.MEASURED: "times and tokens/s; each outcome ran once, on this machine as busy as it was",
            Provenance.COMPUTED: "slots, blocks, counts",
        },
        "four-outcomes.csv", columns=COLUMNS, height=142,
    )
    draw_saves(
        lanes_table(found), "batching_lanes", "lanes.csv", st.columns(2), "Save all lanes as CSV",
        "Save all lanes as Parquet",
    )


def verdict(static: BatchOutcome, continuous: BatchOutcome) -> str:
    """What the two differ in, in a sentence of numbers."""
    s, c = static.totals, continuous.totals
    tokens = f"{s.num_new_tokens:,} tokens"
    if c.num_new_tokens != s.num_new_tokens:
        tokens = f"{s.num_new_tokens:,} tokens static and {c.num_new_tokens:,} continuous"
    return (
        f"For {tokens}, static batching computed {static.computed_slots:,} slots in {s.wall_ms / 1000:.2f} s, "
        f"continuous batching {continuous.computed_slots:,} in {c.wall_ms / 1000:.2f} s."
    )
