"""The logit lens: what the model would say next if it stopped after each layer."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.inside.lens_plot import ROW, lens_figure
from miniinfer.figures.inside.plots import lines_figure
from miniinfer.figures.inside.tables import lens_table
from miniinfer.figures.sampling.words import percent
from miniinfer.provenance import Provenance
from miniinfer.trace.inside.logit_lens import LogitLens, logit_lens
from miniinfer.ui.figure import draw_figure
from miniinfer.ui.inside.look import InsideLook
from miniinfer.ui.table_twin import draw_table_twin

SHARE = st.column_config.NumberColumn(format="percent")


def draw_lens(look: InsideLook) -> None:
    rows = look.stage_rows()
    lens = look.kept("lens", lambda: look.session.look([look.run], lambda: logit_lens(look.run, rows)))
    with st.container(key="inside_lens_words"):
        st.text(_words(look, lens))
    height = max(420, ROW * len(lens.labels) + 40)
    left, right = st.columns([7, 5], gap="medium")
    with left:
        st.markdown("**What would each layer say next?**")
        draw_figure(
            lens_figure(lens, look.text, look.colours, height), "inside_lens_map",
            f"Logit lens at position {look.position}: the best tokens after each layer", name="logit_lens",
        )
    with right:
        st.markdown("**When does the final token come up?**")
        final = look.text(lens.final_id)
        lines = {f"rank of “{final}” (final)": lens.final_ranks.tolist()}
        if lens.next_id is not None and lens.next_ranks is not None and lens.next_id != lens.final_id:
            lines[f"rank of “{look.text(lens.next_id)}” (next in the run)"] = lens.next_ranks.tolist()
        lines = {name.replace("<", "&lt;").replace(">", "&gt;"): ranks for name, ranks in lines.items()}
        draw_figure(
            lines_figure(
                lines, look.colours, height, y="rank, 1 is best (log)", log=True, labels=lens.labels, mark=lens.settled
            ),
            "inside_lens_ranks", f"Logit lens at position {look.position}: rank of the final token after each layer",
            name="logit_lens_ranks",
        )
    with st.expander("Table of the lens"):
        draw_table_twin(lens_table(lens, look.text), "inside_lens", Provenance.COMPUTED, "logit_lens.csv")


def _words(look: InsideLook, lens: LogitLens) -> str:
    place = lens.labels[lens.settled]
    return (
        f"final_norm and unembed, applied to the residual stream after each layer at position {look.position} "
        f"(“{look.text_at(look.position)}”). The last layer says “{look.text(lens.final_id)}” with "
        f"{percent(float(lens.final_probs[-1]))}; it is the best one from {place} on. Colour: probability, linear from "
        "0 to 100 %. Middle layers were never trained to be read like this: take it as a hint. Figures: "
        f"{Provenance.COMPUTED.value}, on a replay of this step."
    )
