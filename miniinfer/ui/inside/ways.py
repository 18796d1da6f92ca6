"""The same position both ways: in one pass with all before it, and alone on the cache."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.inside.plots import difference_figure, lines_figure
from miniinfer.figures.inside.tables import two_ways_matrix, two_ways_table, values_table
from miniinfer.provenance import Provenance
from miniinfer.trace.capture import StageTensor
from miniinfer.trace.inside.two_ways import TwoWays, compare_both_ways
from miniinfer.ui.figure import draw_figure
from miniinfer.ui.inside.look import InsideLook
from miniinfer.ui.room import roomy
from miniinfer.ui.table_twin import draw_table_twin

AT_ONCE = 768  # positions that are computed without asking first
HEIGHT = 286
SHOWN = 6


def draw_ways(look: InsideLook) -> None:
    position = look.position
    st.markdown(f"**Does position {position} come out the same in prefill and in decode?**")
    if position >= AT_ONCE and not st.session_state.get("inside_ways_long"):
        st.text(f"Prefill computes {position + 1:,} positions anew for this, which takes a few seconds.")
        st.button("Compute both ways", key="inside_ways_start", on_click=_start)
        return
    ways = look.replay("ways", lambda: compare_both_ways(look.run, position))
    names, matrix = two_ways_matrix(ways, look.layers)
    with st.container(key="inside_ways_words"):
        st.text(_words(look, ways))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.selectbox(
            "Tensor", names, index=names.index("resid_post"), key="inside_ways_name", persist_state="session", width=200
        )
        layer = int(st.number_input("Layer", 0, look.layers - 1, look.layers - 1, key="inside_ways_layer", width=120))
    left, right = st.columns(2, gap="medium")
    with left:
        draw_figure(
            difference_figure(matrix, names, look.colours, roomy(HEIGHT)), "inside_ways_map",
            f"Prefill and decode of position {position}: largest difference of each tensor", name="prefill_and_decode",
        )
        st.caption(
            "Colour: largest absolute difference, logarithmic; uncoloured is bit-equal. Figures: "
            f"{Provenance.COMPUTED.value}."
        )
    with right:
        row = matrix[names.index(name)].tolist()
        draw_figure(
            lines_figure({name: row}, look.colours, roomy(HEIGHT), y=f"largest difference of {name}"),
            "inside_ways_lines",
            f"Prefill and decode of position {position}: largest difference of {name} over the layers",
            name=f"prefill_and_decode_{name}",
        )
    st.markdown(f"**Which values of {name} in layer {layer} differ most?**")
    frame = values_table(_of(ways.prefill, name, layer), _of(ways.decode, name, layer), SHOWN)
    st.dataframe(
        frame, hide_index=True, key="inside_ways_values", height="content", row_height=26, width="stretch",
        column_config={n: st.column_config.NumberColumn(format="%.9g") for n in ("prefill", "decode", "difference")},
    )
    with st.expander("Table of all tensors"):
        draw_table_twin(two_ways_table(ways), "inside_ways", Provenance.COMPUTED, "prefill_and_decode.csv")


def _words(look: InsideLook, ways: TwoWays) -> str:
    position, largest = ways.position, ways.comparison.largest
    assert largest is not None  # every step writes tensors
    if position == 0:
        both = "Position 0 has none before it: both ways compute it alone, from an empty cache."
    else:
        both = (
            f"Prefill: positions 0 to {position} in {_passes(look, position + 1)}. Decode: position {position} alone, "
            f"with what the run's cache holds of the {position:,} before it."
        )
    if not largest.largest:
        return f"{both} Every tensor is equal, bit for bit."
    layer = "" if largest.layer is None else f" of layer {largest.layer}"
    return (
        f"{both} Largest difference: {largest.largest:.3g}, in {largest.name}{layer}; in relation to each tensor's own "
        f"largest value {ways.relative:.2g}. Only the order of summation differs."
    )


def _passes(look: InsideLook, count: int) -> str:
    """Where a step may not take them all, prefill goes in parts."""
    budget = look.run.engine.config.max_num_batched_tokens
    return "one pass" if count <= budget else f"{-(-count // budget)} passes of at most {budget:,}"


def _of(tensors: tuple[StageTensor, ...], name: str, layer: int) -> StageTensor:
    """The last writing of this name in the layer."""
    return next(t for t in reversed(tensors) if (t.name, t.layer) == (name, layer))


def _start() -> None:
    st.session_state["inside_ways_long"] = True


