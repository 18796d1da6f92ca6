"""How the newest query reads the cache: its weights over all positions, and the query itself, which is not kept."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.kv.plots import query_figure, reading_figure
from miniinfer.figures.kv.tables import reading_table, vector_table
from miniinfer.figures.kv.words import listed
from miniinfer.provenance import Provenance
from miniinfer.ui.kv.look import LiveLook
from miniinfer.ui.kv.pick import draw_empty, draw_sharing, pick_head
from miniinfer.ui.room import taller
from miniinfer.ui.run_look import PLOT
from miniinfer.ui.table_twin import draw_table_twin


def draw_reads(look: LiveLook) -> None:
    left, right = st.columns([2, 9], gap="medium")
    with left, st.container(key="kv_pick"):
        layer, kv_head = pick_head(look)
        draw_sharing(look, kv_head)
    if not look.context_len:
        with right:
            draw_empty(look)
        return
    cached = look.vectors(layer, kv_head)
    reading = look.reading(cached)
    model, meta = look.run.info.model, look.meta
    assert meta is not None
    with right:
        st.text(
            f"Step {look.step} computed {meta.num_scheduled:,} new position{'s' if meta.num_scheduled > 1 else ''} and "
            f"read {meta.kv_bytes_read:,} B of keys and values. The query of position {reading.position} "
            f"“{look.text(reading.position)}” in layer {layer}: query heads {listed(reading.heads)} read KV head "
            f"{kv_head}, all positions 0 to {reading.position}."
        )
        st.plotly_chart(
            taller(reading_figure(cached, reading, look.text, look.colours), 2), key="kv_weights", config=PLOT,
            alt="Attention weights of the query heads over all positions",
        )
        st.text(
            f"q is used once and thrown away: its dot products with the keys, divided by √{model.head_dim}, are the "
            "scores; softmax makes them weights; the values are mixed by them. Nobody asks for this q again, so it is "
            "not in the cache. (MiniInfer's recorder kept it, to show it here.)"
        )
        st.plotly_chart(
            taller(query_figure(reading, look.colours), 2), key="kv_query", config=PLOT,
            alt="The queries of the newest position"
        )
        with st.expander("Table: score and weight of every position"):
            table = reading_table(cached, reading, look.text)
            draw_table_twin(table, "kv_reading", Provenance.COMPUTED, "kv_reading.csv")
        with st.expander("Table: q of the newest position beside its K and V"):
            beside = vector_table(cached, reading.position, reading)
            draw_table_twin(beside, "kv_query", Provenance.COMPUTED, "kv_query.csv")
