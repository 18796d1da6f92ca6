"""The pipeline: one row a stage, and the distribution of the stage that is chosen."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.sampling.plots import stage_figure, stage_tokens
from miniinfer.figures.sampling.tables import stage_table, stages_table
from miniinfer.figures.sampling.words import stage_label
from miniinfer.provenance import Provenance
from miniinfer.trace.sampling.sampling import Sampling
from miniinfer.ui.room import TOKEN_BAR, more_rows
from miniinfer.ui.run_look import PLOT
from miniinfer.ui.sampling.look import Look, probabilities
from miniinfer.ui.table_twin import draw_saves, draw_table_twin

SHOWN = 12
NATS = st.column_config.NumberColumn(format="%.3f", help="In nats: 0 is certain; ln of the vocabulary is all equal.")
COLUMNS = {
    "stage": st.column_config.TextColumn(width=126), "setting": st.column_config.TextColumn(width=84),
    "likeliest": st.column_config.TextColumn(width=96),
    "tokens left": st.column_config.NumberColumn(format="localized"),
    "cut here": st.column_config.NumberColumn(format="localized"),
    "mass cut": st.column_config.NumberColumn(format="percent", help="What the tokens cut here had before."),
    "mass moved": st.column_config.NumberColumn(
        "moved", format="percent",
        help="The part of the probability that changed hands: half the sum of |after − before|.",
    ),
    "entropy before": NATS, "entropy after": NATS,
    "its probability": st.column_config.NumberColumn("its share", format="percent", help="Its probability."),
}  # fmt: skip


def draw_stages(look: Look) -> None:
    """Choosing a row shows its distribution over the one before it."""
    sampling = look.now
    frame = stages_table(sampling, look.text)
    picked = st.dataframe(
        frame, key="sampling_stage_rows", hide_index=True, on_select="rerun", selection_mode="single-row",
        column_config=COLUMNS, row_height=25, width="stretch", height="content", placeholder="",
    )
    rows = picked["selection"]["rows"]
    stage = min(rows[0], len(sampling.stages) - 1) if rows else _most_telling(sampling)
    st.markdown(f"**{_question(sampling, stage)}**")
    figure = stage_figure(sampling, stage, SHOWN + more_rows(TOKEN_BAR), look.text, look.colours)
    st.plotly_chart(figure, key="sampling_stage_figure", config=PLOT, alt=f"After {stage_label(sampling, stage)}")
    st.caption(
        "Outline: before this stage; bar: after it; blue: the token that these settings draw. Choose a row for another "
        f"stage. All figures: {Provenance.COMPUTED.value}."
    )
    with st.expander("Table of this figure, and both as files"):
        left, *saves = st.columns([8, 2, 2], vertical_alignment="center")
        left.caption("The table of all stages, above")
        draw_saves(frame, "sampling_stages", "stages.csv", saves)
        shown = stage_table(sampling, stage, stage_tokens(sampling, stage, SHOWN + more_rows(TOKEN_BAR)), look.text)
        form = probabilities("before", "after")
        draw_table_twin(shown, "sampling_stage", Provenance.COMPUTED, "stage.csv", columns=form)


def _most_telling(sampling: Sampling) -> int:
    """The stage that cut most of the probability, or else the one that moved most, or else the last one."""
    for measure in ([s.mass_cut for s in sampling.stages], [s.mass_moved for s in sampling.stages]):
        if max(measure) > 0:
            return measure.index(max(measure))
    return len(sampling.stages) - 1


def _question(sampling: Sampling, stage: int) -> str:
    view = sampling.stages[stage]
    label = stage_label(sampling, stage)
    if stage == 0:
        return "What does the model itself say?"
    if view.off:
        return f"{label} changes nothing here"
    if view.num_cut:
        stay = "1 token stays" if view.num_kept == 1 else f"{view.num_kept:,} tokens stay"
        return f"What does {label} leave? {stay}, {view.num_cut:,} are cut"
    return f"What does {label} change? It cuts nothing"
