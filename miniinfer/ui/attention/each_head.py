"""Each head knocked out alone, at this position: those of the layer at once, all of the model when asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from miniinfer.faults.knock_out import each_head_off
from miniinfer.figures.attention.heads_plots import heads_map
from miniinfer.figures.attention.shift_plots import moved_figure, points
from miniinfer.figures.attention.tables import each_off_table
from miniinfer.models.display import visible
from miniinfer.provenance import Provenance
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.records import FloatArray
from miniinfer.trace.shift import moved_by_rows
from miniinfer.ui.attention.look import Look, head_picker, twin
from miniinfer.ui.figure import draw_figure

MAP = 9 * 14  # px: with the figure above it, what a screen of 900 px has room for
ALL = "attention_all_off"  # the session's key: ((run, position), moved [L, H], likeliest token then)
ONE, KEPT = "attention_one_off", 8  # the same of single layers, by (run, position, layer); so many are kept
Moved = tuple[FloatArray, list[list[int]]]  # [layers, H] probability moved, and the likeliest token then


def draw_each_head(look: Look, run: LiveRun) -> None:
    """A figure of its own: the heads of this layer, or the map of all."""
    model = run.info.model
    key = (run.info.run_id, look.position)
    place = title = st.empty()  # the title stands alone in it once there is nothing left to try
    kept = st.session_state.get(ALL)
    if kept is None or kept[0] != key:
        title, button = place.columns([2, 1], vertical_alignment="center")
        if button.button(
            f"Try all {model.num_layers * model.num_heads} heads", key="attention_each", width="stretch",
            help=f"{model.num_layers} steps of {model.num_heads} rows: about as long as {2 * model.num_layers} tokens.",
        ):
            with st.spinner("Knocking out one head after another…"):
                kept = st.session_state[ALL] = (key, *_moved(look, run, range(model.num_layers)))
    whole = kept is not None and kept[0] == key
    moved, best = kept[1:] if kept is not None and whole else _of_layer(look, run)
    layer, head = divmod(int(moved.argmax()), moved.shape[1])
    where = f"layer {layer}, head {head}" if whole else f"head {head}"
    which = "of the model" if whole else f"of layer {look.layer}"
    (place if whole else title).text(  # what stood in the place is gone then
        f"Each head {which} knocked out alone at this position: {where} "
        f"moves most, {points(float(moved[layer, head]))[1:]} of the probability."
        f"{' A click chooses a head.' if whole else ''}"
    )
    if whole:
        most = max(float(moved.max()), 1e-6)
        draw_figure(
            heads_map(moved, (look.layer, look.head), "moved", look.colours, most=most, height=MAP),
            "attention_each_map",
            f"Probability moved by each head, knocked out alone at position {look.position}",
            on_pick=head_picker(look),
        )
    else:
        draw_figure(
            moved_figure(moved[0], look.head, look.colours, 164), "attention_each_bars",
            f"Layer {look.layer}: probability moved by each head, knocked out alone at position {look.position}",
        )

    def table() -> pd.DataFrame:
        texts = [[visible(run.describe(int(i)).text) for i in row] for row in best]
        found = each_off_table(moved, texts, first_layer=0 if whole else look.layer)
        return found.sort_values("moved (pp)", ascending=False, kind="stable")

    twin("Table of these heads", "attention_each", table, Provenance.COMPUTED, "heads_off.csv")


def _of_layer(look: Look, run: LiveRun) -> Moved:
    """Of the layer looked at; a run id is never used again, so what was computed once stays true."""
    key = (run.info.run_id, look.position, look.layer)
    kept: dict[Any, Moved] = st.session_state.setdefault(ONE, {})
    if key not in kept:
        kept[key] = _moved(look, run, [look.layer])
        while len(kept) > KEPT:
            del kept[next(iter(kept))]
    return kept[key]


def _moved(look: Look, run: LiveRun, layers: Iterable[int]) -> Moved:
    """One layer a step of the engine."""
    before = look.ask(lambda: run.logits_at(look.position))

    def off(layer: int) -> tuple[FloatArray, list[int]]:
        moved, best = moved_by_rows(before, each_head_off(run.engine, run.seq, look.position, layer))
        return moved, best.tolist()

    found = [look.ask(lambda layer=layer: off(layer)) for layer in layers]  # type: ignore[misc]
    return np.stack([moved for moved, _ in found]), [best for _, best in found]
