"""From q . k to weights: four pictures of one head, and one row of them as numbers that can be checked by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from miniinfer.figures.attention.plots import MapLook, maps_figure
from miniinfer.figures.attention.tables import maps_table, recorded_row_table, row_table
from miniinfer.figures.attention.words import RECORDED
from miniinfer.provenance import Provenance
from miniinfer.trace.attention.one_head import HeadMaps, head_maps, pooled_head_maps
from miniinfer.trace.pooling import pool_head
from miniinfer.trace.records import ByteArray, FloatArray
from miniinfer.ui.attention.look import KEY, Look, twin
from miniinfer.ui.attention.marked_table import draw_marked_table, marked_row
from miniinfer.ui.figure import draw_figure
from miniinfer.ui.recorded_words import when_live
from miniinfer.ui.room import more_rows, roomy
from miniinfer.ui.table_twin import ROW, draw_saves, draw_table_twin, whole_rows

WHOLE = 48  # positions up to which all of a head is drawn; also the side of a window, and the cells of a pooled map
HEIGHT = 352
STRONGEST = 32  # keys of a longer row that stand in its table; all of them are folded, for they cost time to draw
ROW_TABLE, ROW_KEYS = "attention_row_table", "attention_row_keys"  # the row's table, and the key of each of its lines
COLUMNS = {
    "key": st.column_config.NumberColumn(width=60),
    "q·k": st.column_config.NumberColumn(format="%.6f", help="The product of the query with this key, after RoPE."),
    "÷ √D": st.column_config.NumberColumn(format="%.6f", help="Divided by the root of the head's size."),
    "masked": st.column_config.NumberColumn(format="%.6f", help="Minus infinity at later positions."),
    "exp(s − max)": st.column_config.NumberColumn(
        format="%.6f", help="The exponential of the score less the row's largest one, so that nothing overflows."
    ),
    "weight": st.column_config.NumberColumn(format="%.6f", help="exp divided by the sum of all exps."),
}


def draw_scores(look: Look) -> None:
    pooled = False
    if look.length > WHOLE:
        pooled = st.segmented_control(
            "Range", ["window", "whole, pooled"], default="window", key="attention_range", required=True,
            label_visibility="collapsed", persist_state="session",
        ) == "whole, pooled"  # fmt: skip
    shown = _recorded_maps(look, pooled) if look.live is None else _maps(look, pooled)
    map_look = MapLook(look.length, look.position, look.run.info.model.head_dim, look.hide_first)
    figure = maps_figure(shown, map_look, look.text, look.colours, roomy(HEIGHT, 2))
    draw_figure(figure, "attention_maps", f"Layer {look.layer}, head {look.head}: scores, mask and weights")
    source = Provenance.RECORDED if look.live is None else Provenance.COMPUTED
    st.caption(_caption(look, shown, source))
    if look.live is None:
        st.text(RECORDED + when_live(look.session))
        table = recorded_row_table(look.weights, look.text, hide_first=look.hide_first)
        draw_table_twin(table, "attention_row", source, "row.csv")
        return
    _row(look, shown)
    twin(
        "Table of the pictures", "attention_cells", lambda: maps_table(shown, look.length, look.text), source,
        "maps.csv",
    )  # fmt: skip


def _row(look: Look, maps: HeadMaps) -> None:
    """Choosing a line chooses the key of the view RoPE."""
    row = look.row
    total = float(row.exps.sum(dtype=np.float64))
    best = int(row.pattern.argmax())
    weight, quotient = f"{float(row.pattern[best]):.6f}", f"{float(row.exps[best]) / total:.6f}"
    kept = "" if quotient == weight else f", kept as {weight} in {look.run.info.dtype}"
    long = look.length > WHOLE

    def table(strongest: int | None) -> pd.DataFrame:
        return row_table(row, maps, look.text, hide_first=look.hide_first, strongest=strongest)

    def whole() -> pd.DataFrame:
        return table(len(row.pattern) if long else None)

    shown = table(STRONGEST if long else None)
    left, *places = st.columns([8, 2, 2], vertical_alignment="center")
    left.text(
        f"The query's row, to check by hand: largest score {float(row.scaled.max()):.6f}; {len(row.exps):,} exps sum "
        f"to {total:.6f}; key {best}: {float(row.exps[best]):.6f} ÷ {total:.6f} = "
        f"{quotient}{kept}."
    )
    draw_saves(whole, "attention_row", "row.csv", places)
    keys = [min(key, look.position) for key in shown["key"].tolist()]
    st.session_state[ROW_KEYS] = keys
    chosen = st.session_state.get(KEY)
    draw_marked_table(
        shown, ROW_TABLE, keys.index(chosen) if chosen in keys else None, column_config=COLUMNS,
        height=whole_rows(max(6, min(len(shown), 6 + more_rows(ROW, 2)))), on_select=_from_row,
        selection_mode="single-row",
    )
    if long:
        twin(f"All {len(row.pattern):,} keys of the row", "attention_keys", whole, Provenance.COMPUTED, "row.csv")


def _from_row() -> None:
    (chosen, row), keys = marked_row(ROW_TABLE), st.session_state.get(ROW_KEYS, [])
    if chosen:
        st.session_state[KEY] = keys[row] if row is not None and row < len(keys) else None


def _maps(look: Look, pooled: bool) -> HeadMaps:
    run = look.live
    assert run is not None
    layer, head = look.layer, look.head
    if pooled:
        return look.ask(lambda: pooled_head_maps(run, layer, head, look.length, WHOLE, skip_first=look.hide_first))
    start, stop = window(look.length, look.position)
    return look.ask(lambda: head_maps(run, layer, head, start, stop, start))


def _recorded_maps(look: Look, pooled: bool) -> HeadMaps:
    if pooled:
        cell = -(-look.length // WHOLE)
        cells = pool_head(([_recorded_row(look, i)] for i in range(look.length)), look.length, cell)
        return HeadMaps(0, 0, cell, {"pattern": _weights(cells)})
    start, stop = window(look.length, look.position)
    weights = np.zeros((stop - start, stop - start), np.float32)
    for i in range(start, stop):
        weights[i - start, : i + 1 - start] = _weights(_recorded_row(look, i)[start:])
    return HeadMaps(start, start, 1, {"pattern": weights})


def _recorded_row(look: Look, position: int) -> ByteArray:
    """[position + 1]; where the first token is hidden it has no weight."""
    row = look.run.head_rows(look.layer, look.head, position, position + 1).copy()
    row[: int(look.hide_first)] = 0
    return row


def _weights(kept: ByteArray) -> FloatArray:
    """From 8 bits on a square-root scale."""
    return np.square(kept.astype(np.float32) / 255)


def window(length: int, position: int) -> tuple[int, int]:
    """(start, stop) of at most WHOLE positions that hold this one, with as many before it as there are."""
    stop = min(length, max(WHOLE, position + 1))
    return max(0, stop - WHOLE), stop


def _caption(look: Look, shown: HeadMaps, source: Provenance) -> str:
    what = "Rows are queries, columns keys; the ringed row is the query looked at."
    if shown.cell > 1:
        what += (
            f" Each cell covers {shown.cell} × {shown.cell} positions and shows the largest number in it"
            f"{', the first token left out' if look.hide_first else ''}."
        )
    elif look.length > WHOLE:
        stop = shown.row_start + len(shown.maps["pattern"])
        what += f" Positions {shown.row_start} to {stop - 1} of {look.length:,}; keys before them are in the row below."
    scale = "Weights are coloured by their square root, so that 1 % can be seen; scores by their sign."
    return f"{what} {scale} Figures: {source.value}."
