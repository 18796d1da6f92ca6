"""The draw: the coin on the cumulative bar, the next coins, and a thousand of them against the probabilities."""

from __future__ import annotations

import math

import streamlit as st

from miniinfer.figures.sampling.plots import cumulative_figure, draws_figure
from miniinfer.figures.sampling.tables import bar_table, draws_table
from miniinfer.provenance import Provenance
from miniinfer.trace.sampling.draws import MANY, Draws, coins_from, draw_many
from miniinfer.ui.room import TOKEN_BAR, more_rows
from miniinfer.ui.run_look import PLOT
from miniinfer.ui.sampling.look import Look, probabilities
from miniinfer.ui.table_twin import draw_table_twin

SHOWN = 9
ROWS = 200
BAR = probabilities("raw probability", "used probability") | {
    end: st.column_config.NumberColumn(format="%.6f") for end in ("from", "to")
}
COUNTS = probabilities("probability") | {
    name: st.column_config.NumberColumn(format="%.2f") for name in ("expected", "spread by chance", "spreads away")
}
TRAIL = 12  # coins that stay on the bar


def draw_the_draw(look: Look) -> None:
    """Coins of the same seed, from the one of this place on. The run keeps the token it has."""
    state, index = st.session_state, len(look.place.output_ids)
    here = (look.run.info.run_id, look.place.step, look.params)
    if state.get("sampling_draws_of") != here:
        state["sampling_draws_of"], state["sampling_coins"], state["sampling_many"] = here, 1, False
    with st.container(horizontal=True):
        if st.button("Draw again, next coin", key="sampling_again"):
            state["sampling_coins"] += 1
        if st.button(f"Draw {MANY:,} times", key="sampling_thousand"):
            state["sampling_many"] = True
        untouched = state["sampling_coins"] == 1 and not state["sampling_many"]
        if st.button("Start over", key="sampling_over", disabled=untouched):
            state["sampling_coins"], state["sampling_many"] = 1, False
    seed, sampling = look.params.seed, look.now
    count = state["sampling_coins"]
    some = draw_many(sampling, coins_from(seed, index, count))
    st.markdown("**Where does the coin land?**")
    pairs = list(zip(some.coins.tolist(), some.token_ids.tolist(), strict=True))[-TRAIL:]
    st.plotly_chart(
        cumulative_figure(sampling, pairs, look.text, look.colours), key="sampling_bar", config=PLOT,
        alt="The cumulative bar of all tokens that can be drawn, with the coin on it",
    )
    token_id, toss = pairs[-1][1], pairs[-1][0]
    st.text(
        f"Coin {index + count} of seed {seed} is {toss:.6f} and lands on {look.quoted(token_id)}. Each token is as "
        "wide as its used probability; the coin depends on seed and place alone: other settings meet the same one. "
        "Drawing again tosses the coins of the places that follow; the run keeps its token."
    )
    if look.params.greedy:
        st.caption("Temperature 0 is greedy: one token fills the bar, so every coin lands on it.")
    if state["sampling_many"]:
        _thousand(look, draw_many(sampling, coins_from(seed, index, MANY)))
    with st.expander("Table of the bar"):
        frame = bar_table(sampling, toss, token_id, ROWS, look.text)
        draw_table_twin(frame, "sampling_bar", Provenance.COMPUTED, "bar.csv", columns=BAR)


def _thousand(look: Look, draws: Draws) -> None:
    st.markdown(f"**Do {MANY:,} draws follow the probabilities?**")
    ids = [i for i in look.now.order[: SHOWN + more_rows(TOKEN_BAR)].tolist() if draws.probs[i] > 0]
    st.plotly_chart(
        draws_figure(draws, ids, look.text, look.colours), key="sampling_counts", config=PLOT,
        alt="Counts of draws against expected counts",
    )
    found, freedom = draws.chi_square()
    if freedom:
        usual = math.sqrt(2 * freedom)
        st.caption(
            f"All deviations together (chi-square): {found:.1f}; chance alone gives {freedom} ± {usual:.1f}. One count "
            "in twenty may lie beyond its bar of two spreads by chance."
        )
    with st.expander("Table of the counts"):
        frame = draws_table(draws, ids, look.text)
        draw_table_twin(frame, "sampling_counts", Provenance.COMPUTED, "draws.csv", columns=COUNTS)
