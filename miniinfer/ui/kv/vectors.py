"""The very keys and values: of one position as bars, of all around it as a heat map, as numbers in a table."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.kv.plots import cache_figure, vector_figure, window_of
from miniinfer.figures.kv.tables import cache_table, vector_table
from miniinfer.provenance import Provenance
from miniinfer.ui.kv.look import LiveLook
from miniinfer.ui.kv.pick import draw_empty, draw_sharing, pick_head, pick_position
from miniinfer.ui.room import taller
from miniinfer.ui.run_look import PLOT
from miniinfer.ui.table_twin import draw_table_twin

NUMBER = st.column_config.NumberColumn(format="%.9g", help="Nine digits tell every float32 from its neighbours.")
EXACT = dict.fromkeys(("K (after RoPE)", "V"), NUMBER)


def draw_vectors(look: LiveLook) -> None:
    left, right = st.columns([2, 9], gap="medium")
    with left, st.container(key="kv_pick"):
        layer, kv_head = pick_head(look)
        position = pick_position(look) if look.context_len else 0
        draw_sharing(look, kv_head)
    if not look.context_len:
        with right:
            draw_empty(look)
        return
    cached = look.vectors(layer, kv_head)
    block, slot = cached.block_of[position]
    info, dim = look.run.info, cached.keys.shape[1]
    dtype = "float32" if info.dtype == "packed" else info.dtype  # that of the cache: only the weights are packed
    with right:
        st.text(
            f"Layer {layer}, KV head {kv_head}, position {position} “{look.text(position)}”: {dim} numbers of K and "
            f"{dim} of V in {dtype}, in slot {slot} of block {block}. K lies there after RoPE, so it is never turned "
            "again."
        )
        st.plotly_chart(
            taller(vector_figure(cached, position, look.colours), 2), key="kv_bars", config=PLOT,
            alt="Key and value as bars"
        )
        st.plotly_chart(
            taller(cache_figure(cached, position, look.text, look.colours), 2), key="kv_heat", config=PLOT,
            alt="Keys and values of the positions around it",
        )
        first, stop = window_of(cached, position)
        around = "all positions" if stop - first == cached.context_len else f"positions {first} to {stop - 1}"
        st.caption(f"The map shows {around} after step {look.step}; the ring is the position above.")
        with st.expander(f"Table: the {2 * dim} numbers of position {position}"):
            numbers = vector_table(cached, position)
            draw_table_twin(numbers, "kv_vector", Provenance.COMPUTED, "kv_vector.csv", columns=EXACT)
        if st.toggle(
            f"Table: all {cached.context_len:,} positions of layer {layer}, KV head {kv_head}", key="kv_all_shown",
            help="Every number of this head, a row a position. Made when it is asked for: at long lengths it is large.",
        ):
            draw_table_twin(cache_table(cached, look.text), "kv_all", Provenance.COMPUTED, "kv_head.csv")
