"""What other temperatures would do, how far ahead greedy's token is, and what the penalties counted."""

from __future__ import annotations

import dataclasses
import math

import streamlit as st

from miniinfer.figures.sampling.plots import sweep_figure, sweep_leaders
from miniinfer.figures.sampling.tables import penalties_table, sweep_table
from miniinfer.provenance import Provenance
from miniinfer.trace.sampling.draws import greedy_margin, sweep_temperature
from miniinfer.ui.room import taller
from miniinfer.ui.run_look import PLOT
from miniinfer.ui.sampling.look import Look, probabilities
from miniinfer.ui.table_twin import draw_table_twin, whole_rows

LEADERS = 6
CLOSE = 0.1  # logits
ROWS = 4  # of the table of penalties, in view at once


def draw_what_if(look: Look) -> None:
    place, text = look.place, look.text
    sweep = look.session.look(
        [look.run], lambda: sweep_temperature(place.logits, look.params, place.prompt_ids, place.output_ids)
    )
    leaders = sweep_leaders(sweep, LEADERS)
    st.markdown("**Who wins at which temperature?**")
    st.plotly_chart(
        taller(sweep_figure(sweep, leaders, look.params.temperature, text, look.colours)),
        key="sampling_sweep", config=PLOT, alt="Used probability of the leading tokens over the temperature",
    )
    first = zip(sweep.temperatures, sweep.winners, (None, *sweep.winners), strict=False)
    changes = [f"from {t:g} on {look.quoted(winner)}" for t, winner, before in first if winner != before]
    st.text(f"The same coin, {sweep.coin:.4f}, draws: {', '.join(changes)}.")
    left, right = st.columns([2, 3], gap="medium")
    with left:
        _margin(look)
        with st.expander("Table of the sweep"):
            frame = sweep_table(sweep, leaders, text)
            shown = probabilities(*frame.columns[3:])
            draw_table_twin(
                frame, "sampling_sweep", Provenance.COMPUTED, "temperatures.csv", columns=shown, narrow=True
            )
    with right:
        _penalties(look)


def _margin(look: Look) -> None:
    st.markdown("**How far is the best token ahead?**")
    greedy = look.sampling(dataclasses.replace(look.params, temperature=0.0))
    margin = greedy_margin(greedy.stages[-2].logits)
    st.text(
        f"{look.quoted(margin.best)} is {margin.difference:.3f} logits ahead of {look.quoted(margin.second)}: "
        f"{math.exp(min(margin.difference, 50)):,.3g} times as likely. Greedy (temperature 0) takes the first."
    )
    if greedy.stages[-2].logits is not greedy.raw.logits:
        st.caption("After the penalties, which act under greedy too.")
    if margin.difference < CLOSE:
        st.caption(
            "That is close: another precision, or another order of summation, may choose the other even when greedy."
        )


def _penalties(look: Look) -> None:
    st.markdown("**Which tokens do the penalties count?**")
    params = look.params
    if params.repetition_penalty == 1 and not params.presence_penalty and not params.frequency_penalty:
        st.caption("All three are off at the left; this is what they would count.")
    else:
        st.caption("Repetition counts prompt and output, once per id; presence and frequency count the output.")
    st.caption("By: how much the logit was changed, by repetition and by the others (presence and frequency).")
    draw_table_twin(
        penalties_table(look.now, look.text), "sampling_penalties", Provenance.COMPUTED, "penalties.csv",
        height=whole_rows(ROWS), narrow=True,
        columns={"logit": st.column_config.NumberColumn(format="%.3f")},
    )
