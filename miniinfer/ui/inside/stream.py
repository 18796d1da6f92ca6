"""The residual stream: how long each position's vector is after each layer, and what attention and MLP add."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.inside.picture import number, pooled
from miniinfer.figures.inside.plots import lines_figure, stream_figure
from miniinfer.figures.inside.tables import norms_table, stream_table
from miniinfer.provenance import Provenance
from miniinfer.ui.figure import draw_figure
from miniinfer.ui.inside.look import InsideLook
from miniinfer.ui.room import roomy
from miniinfer.ui.table_twin import draw_table_twin

STREAMS = ["resid_post", "resid_mid", "resid_pre", "attn_out", "mlp_out"]
MOST_COLUMNS = 256
HEIGHT = 470


def draw_stream(look: InsideLook) -> None:
    rows = look.stage_rows()
    name = st.segmented_control(
        "Norms of", STREAMS, default=STREAMS[0], key="inside_stream", required=True, persist_state="session",
        label_visibility="collapsed",
    ) or STREAMS[0]  # fmt: skip
    norms = rows.norms[name]
    size = -(-norms.shape[1] // MOST_COLUMNS)
    cells = pooled(norms, 1, size, False)
    left, right = st.columns(2, gap="medium")
    with left:
        st.markdown(f"**Where is {name} long?**")
        draw_figure(
            stream_figure(cells, rows.start, size, look.position, look.colours, roomy(HEIGHT)),
            "inside_stream_map", f"L2 norm of {name} over layers and positions", name=f"{name}_norms",
        )
        each = f" A cell is the largest of {size} positions." if size > 1 else ""
        st.caption(
            f"Colour: L2 norm, logarithmic, from {number(cells.min())} to {number(cells.max())}.{each} Frame: the "
            "position looked at. The first token's vector is often by far the longest: many heads rest on it. Figures: "
            f"{Provenance.COMPUTED.value}, on a replay of this step."
        )
    with right:
        shown = {n: rows.norms[n] for n in ("resid_post", "attn_out", "mlp_out")}
        st.markdown(f"**What is added at position {look.position}, and what does it come to?**")
        lines = {n: values[:, look.row].tolist() for n, values in shown.items()}
        draw_figure(
            lines_figure(lines, look.colours, roomy(HEIGHT), y="L2 norm (log)", log=True), "inside_stream_lines",
            f"Norms at position {look.position} over the layers", name="stream_at_position",
        )
    with st.expander("Tables"):
        every = {n: rows.norms[n] for n in STREAMS}
        draw_table_twin(stream_table(every, look.row), "inside_stream_row", Provenance.COMPUTED, "stream.csv")
        draw_table_twin(norms_table(norms, rows.start), "inside_stream_map", Provenance.COMPUTED, f"{name}_norms.csv")
