"""A recorded run has no cache. What its record holds of it: lengths of keys and values, and the counted bytes."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.kv.plots import norms_figure
from miniinfer.figures.kv.tables import norms_table, steps_table
from miniinfer.provenance import Provenance
from miniinfer.ui.kv.look import KVLook, thousands
from miniinfer.ui.page import draw_waiting
from miniinfer.ui.run_look import PLOT
from miniinfer.ui.table_twin import draw_table_twin


def draw_recorded(look: KVLook) -> None:
    draw_waiting(
        look.session, "Vectors and blocks will stand here",
        "This is a recorded run: it has no engine and so no cache to look into. Its record holds the bytes of each "
        "step and how long (L2 norm) each layer's keys and values are.",
    )
    norms = look.run.kv_norms(0)[: look.context_len]
    if not len(norms):
        return
    st.markdown("**Which layers keep long keys and values?**")
    st.plotly_chart(
        norms_figure(norms, look.text, look.colours), key="kv_norms", config=PLOT, alt="Norms of keys and values"
    )
    with st.expander("Table: bytes after every step"):
        table = steps_table(look.run.steps)
        draw_table_twin(table, "kv_steps", Provenance.RECORDED, "kv_steps.csv", columns=thousands(table))
    with st.expander("Table of this figure"):
        draw_table_twin(norms_table(norms, look.text), "kv_norms", Provenance.RECORDED, "kv_norms.csv")
