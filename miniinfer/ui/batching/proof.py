"""The proof: a request of the batch again alone. The same tokens, and how far its logits are from those."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.batching.tables import alone_table
from miniinfer.provenance import Provenance
from miniinfer.trace.batch.records import AloneComparison
from miniinfer.ui.batching.look import BatchLook
from miniinfer.ui.batching.outcomes import compare_alone
from miniinfer.ui.cost.look import RESULTS, task
from miniinfer.ui.table_twin import draw_table_twin

VIEW = "batching_alone"
ALL = "all that have a token"
COLUMNS = {
    "largest logit difference": st.column_config.NumberColumn(format="%.2e"),
    "smallest margin": st.column_config.NumberColumn(format="%.4f"),
}
WHY = (
    "A product over more rows may add its terms in another order, so the last digits of a logit depend on who else is "
    "in the step. At temperature 0 the best logit is chosen: that can turn only where the two best lie closer together "
    "than twice the largest difference. Above that, being batched cannot change the text; below, either token is as "
    "right as the other."
)


def draw_proof(look: BatchLook) -> None:
    trace, run = look.trace, look.session.batch.run
    if trace is None or run is None:
        st.text("Each request will be compared here with itself alone once a batch runs.")
        return
    have = {row.request_id for step in trace.steps for row in step.rows if row.token is not None}
    names = [request.request_id for request in trace.requests if request.request_id in have]
    if not names:
        st.text("No request has a token yet, so there is nothing to compare: step the batch in the first view.")
        st.text(WHY)
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox("Request", [ALL, *names], key="batching_alone_which", width=220)
        if st.button(
            "Compare with alone", key="batching_alone_run", type="primary", disabled=task() is not None,
            help="Runs it again by itself, in a cache of its own, as far as the batch has brought it. The batch is not "
            "touched.",
        ):
            wanted = names if chosen == ALL else [chosen]
            look.begin(VIEW, lambda say: compare_alone(run, wanted))
    found = _merged(look)
    if found:
        st.markdown(f"**{verdict(list(found.values()))}**")
        draw_table_twin(
            alone_table(list(found.values())), "batching_alone",
            {Provenance.COMPUTED: f"from this run's own tensors, in {trace.dtype}"}, "batched-or-alone.csv",
            columns=COLUMNS,
        )
    else:
        st.text("The comparison will stand here: same tokens or not, largest logit difference, and smallest margin.")
    st.text(WHY)


def _merged(look: BatchLook) -> dict[str, AloneComparison]:
    """All comparisons of this batch so far; a newer one of the same request takes the place of the older."""
    kept: dict[str, AloneComparison] = look.result("batching_alone_all") or {}
    kept = kept | {one.request_id: one for one in look.result(VIEW) or ()}
    if kept:
        st.session_state[RESULTS]["batching_alone_all", look.run_id] = kept
    return kept


def verdict(found: list[AloneComparison]) -> str:
    same = sum(one.same for one in found)
    largest = max(one.largest_logit_difference for one in found)
    margin = min(one.smallest_margin for one in found)
    return (
        f"{same} of {len(found)} have the same tokens batched and alone; the largest logit difference is "
        f"{largest:.1e}, the smallest margin between the two best logits {margin:.3g}."
    )
