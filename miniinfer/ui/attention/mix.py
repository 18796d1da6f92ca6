"""The mix that follows the weights: weight x value of each position, z, and what each head adds."""

from __future__ import annotations

import numpy as np
import streamlit as st

from miniinfer.figures.attention.mix_plots import heads_added_figure, mix_figure, mix_order
from miniinfer.figures.attention.tables import heads_added_table, mix_table
from miniinfer.figures.attention.words import share_of
from miniinfer.figures.sampling.words import percent
from miniinfer.provenance import Provenance
from miniinfer.ui.attention.look import Look, twin
from miniinfer.ui.figure import draw_figure
from miniinfer.ui.table_twin import draw_table_twin

SHOWN = 9  # positions in the figure; the table has all
HEIGHT = 290
FEW = 12  # positions whose table is always there


def draw_mix(look: Look) -> None:
    row, text, colours = look.row, look.text, look.colours
    left, right = st.columns([2, 1], gap="medium")
    with left:
        st.markdown("**Which positions make up what this head takes along?**")
        figure = mix_figure(row, text, colours, SHOWN, hide_first=look.hide_first, height=HEIGHT)
        draw_figure(figure, "attention_mix", f"{look.words}: weight times value, by position")
    with right:
        st.markdown("**How much does each head of the layer add?**")
        draw_figure(
            heads_added_figure(row, colours, HEIGHT), "attention_added", f"Layer {look.layer}: what each head adds"
        )
    st.caption(
        "Each line is the weight times the cached value; they sum to z, this head's output. The percentage is the "
        "share of z's length: the line's component along z, so the shares sum to 100 % and may be negative. What a "
        "head adds to the residual stream is its z times its part of the output matrix. Figures: computed."
    )
    st.text(_sentence(look))
    order = mix_order(row, hide_first=look.hide_first)
    if len(order) <= FEW:
        draw_table_twin(mix_table(row, order, text), "attention_mix", Provenance.COMPUTED, "mix.csv")
    else:
        twin(
            f"Table of all {len(order):,} positions", "attention_mix", lambda: mix_table(row, order, text),
            Provenance.COMPUTED, "mix.csv",
        )  # fmt: skip
    twin(
        "Table of the heads", "attention_added", lambda: heads_added_table(row), Provenance.COMPUTED,
        "heads_added.csv",
    )  # fmt: skip


def _sentence(look: Look) -> str:
    row = look.row
    by_weight, by_share = int(row.pattern.argmax()), int(np.abs(row.shares).argmax())
    told = (
        f"The largest weight, {percent(float(row.pattern[by_weight]))}, is on “{look.text(by_weight)}” at {by_weight}; "
        f"it makes {share_of(float(row.shares[by_weight]))} of z."
    )
    if by_share != by_weight:
        told += (
            f" Most of z, {share_of(float(row.shares[by_share]))}, comes from “{look.text(by_share)}” at {by_share} "
            f"with a weight of {percent(float(row.pattern[by_share]))}: a weight counts only as far as the value is "
            "long."
        )
    total = float(row.outputs.sum())
    return f"{told} The heads' parts have {total:.3g} of length together and {row.attn_out:.3g} once added up."
