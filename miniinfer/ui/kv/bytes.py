"""Bytes: what this run took step by step, and straight lines up to whole contexts and whole cards."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.kv.pool_plots import growth_figure, steps_figure
from miniinfer.figures.kv.shapes import CARDS, GIB, ITEMSIZES, KNOWN, GhostLine, known_lines, own_lines
from miniinfer.figures.kv.tables import lines_table, steps_table
from miniinfer.figures.kv.words import about, exact
from miniinfer.provenance import Provenance
from miniinfer.ui.kv.look import LiveLook, thousands
from miniinfer.ui.room import taller
from miniinfer.ui.run_look import PLOT
from miniinfer.ui.table_twin import draw_table_twin

OWN_CARD = "another size"
STEPS = 216  # px of a table that scrolls, so that figure and table fit into the page
SHOWN = ("Llama-2-7B", "Llama-3.1-8B", "Qwen2.5-7B", "Llama-3.1-70B")


def draw_bytes(look: LiveLook) -> None:
    left, right = st.columns([2, 9], gap="medium")
    with left, st.container(key="kv_pick"):
        what = st.radio(
            "Shown", ["against length", "step by step"], key="kv_bytes_view", persist_state="session",
            label_visibility="collapsed",
        )
        if what == "step by step":
            log = st.toggle("log bytes", value=True, key="kv_steps_log", persist_state="session")
        else:
            lines, card, log_x, log_y = _choices(look)
    with right:
        if what == "step by step":
            _steps(look, log=log)
        else:
            _growth(look, lines, card, log_x=log_x, log_y=log_y)


def _steps(look: LiveLook, *, log: bool) -> None:
    st.markdown("**How did the three numbers grow?**")
    steps = look.run.steps
    if not steps:
        st.text("A point for each step will stand here. Press the arrow key → or the step button above.")
        return
    st.plotly_chart(
        taller(steps_figure(steps, look.step, look.colours, log=log)), key="kv_steps", config=PLOT,
        alt="Used, allocated and reserved bytes after every step",
    )
    st.caption("Counted after each step. Reserved is the whole pool's storage, for all runs in it; it grows by chunks.")
    table = steps_table(steps)
    draw_table_twin(table, "kv_steps", Provenance.COMPUTED, "kv_steps.csv", columns=thousands(table), height=STEPS)


def _choices(look: LiveLook) -> tuple[list[GhostLine], tuple[str, int], bool, bool]:
    names = st.multiselect(
        "Well-known models", [s.name for s in KNOWN], default=list(SHOWN), key="kv_known", persist_state="session",
        help="From their published configs.",
    )
    dtype = st.selectbox(
        "Their cache in", list(ITEMSIZES), index=1, key="kv_known_dtype", persist_state="session",
        help="int8 without the scales that a real int8 cache keeps beside the numbers.",
    )
    chosen = st.selectbox(
        "GPU memory", [*CARDS, OWN_CARD], index=2, key="kv_card", persist_state="session",
        help="As sold; a program gets a little less.",
    )
    gib = float(CARDS.get(chosen, 0))
    if chosen == OWN_CARD:
        gib = st.number_input("GiB", 0.01, 10_000.0, value=8.0, key="kv_card_gib", persist_state="session")
    weights = st.toggle(
        "With the weights", key="kv_with_weights", persist_state="session",
        help="The weights lie in the same memory: this run's as they are loaded, the others' in 2 bytes a parameter.",
    )
    one, two = st.columns(2)
    log_x = one.toggle("log length", value=True, key="kv_log_x", persist_state="session")
    log_y = two.toggle("log bytes", value=True, key="kv_log_y", persist_state="session")
    info = look.run.info
    lines = own_lines(look.shape, info.itemsize, info.weight_bytes if weights else 0)
    lines += known_lines([s for s in KNOWN if s.name in names], dtype, weights=weights)
    return lines, (f"{gib:g} GiB", round(gib * GIB)), log_x, log_y


def _growth(
    look: LiveLook, lines: list[GhostLine], card: tuple[str, int], *, log_x: bool, log_y: bool
) -> None:
    st.markdown(f"**How long a text fills {card[0]}?**")
    base = lines[0].base_bytes
    dots = [(m.context_len, base + m.kv_used_bytes) for m in look.run.steps[: look.step]]
    st.plotly_chart(
        taller(growth_figure(lines, dots, card, look.colours, log_x=log_x, log_y=log_y)), key="kv_growth", config=PLOT,
        alt="Bytes of the cache over the length, for several models",
    )
    own, context = lines[0], look.run.info.context_length
    st.text(
        f"This run's model adds {exact(own.position_bytes)} a position: {about(context * own.position_bytes)} for its "
        f"whole context of {context:,}."
        + (f" Without GQA it would be {look.shape.group_size} times that." if look.shape.group_size > 1 else "")
    )
    st.caption(
        "One sequence; each line ends at its model's context. A cross: from there on the memory is full. Ring: counted "
        "in this run; lines: computed from configs."
    )
    with st.expander("Table of these lines"):
        table = lines_table(lines, card[1])
        draw_table_twin(table, "kv_lines", Provenance.COMPUTED, "kv_lines.csv", columns=thousands(table))
