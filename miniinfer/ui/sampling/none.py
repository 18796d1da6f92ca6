"""The sampling page before a token has been chosen: what the sampler will do, and the coin that is fixed already."""

from __future__ import annotations

import streamlit as st

from miniinfer.config import SamplingParams
from miniinfer.figures.sampling.tables import plan_table
from miniinfer.provenance import Provenance
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.sampling.draws import coins_from
from miniinfer.ui.page import draw_before_first_token
from miniinfer.ui.sessions.session import Session
from miniinfer.ui.table_twin import draw_table_twin

COLUMNS = {
    "stage": st.column_config.TextColumn(width=140), "setting": st.column_config.TextColumn(width=100),
    "what it will do": st.column_config.TextColumn(width=560),
}  # fmt: skip


def draw_no_token(session: Session, run: LiveRun, params: SamplingParams) -> None:
    """With the settings at the left: they can be tried on the first token before there is one."""
    cursor, info = session.timeline.cursor, run.info
    why = "the run has ended" if run.finish_reason else "the prompt is still being prefilled"
    where = (
        f"No token has been chosen yet{': you stand before step 1' if run.steps else ''}." if cursor == 0
        else f"Step {cursor} chose no token: {why}."
    )
    draw_before_first_token(session, "sampling", "Which token will be the first, and who decides?", [
        f"{where} The model reads the prompt's {info.num_prompt_tokens:,} tokens and gives each of "
        f"{info.model.vocab_size:,} tokens a logit; the stages below turn these into the distribution that is drawn "
        "from. Every one of them will stand here, for every token of the vocabulary.",
    ])  # fmt: skip
    toss = float(coins_from(params.seed, 0, 1)[0])
    st.markdown("**What will the stages do, in this order?**")
    draw_table_twin(
        plan_table(params, info.model.vocab_size), "sampling_plan", Provenance.COMPUTED, "stages.csv", columns=COLUMNS
    )
    fixed = "it is tossed, but greedy takes the best token" if params.greedy else "it lands on a place of the bar"
    st.text(
        f"The coin of the first output token is fixed already: {toss:.6f}, from seed {params.seed} and the place in "
        f"the output alone. Once the bar of probabilities is there, {fixed}."
    )
