"""RoPE's rotation of the chosen query and key, pair by pair, and the score over the distance."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.attention.rope_plots import distance_figure, pairs_figure, spread_pairs, strongest_pairs
from miniinfer.figures.attention.tables import distances_table, rotation_table
from miniinfer.provenance import Provenance
from miniinfer.trace.attention.rotation import SHIFTS, Rotation, rotation_of
from miniinfer.ui.attention.look import KEY, Look, twin
from miniinfer.ui.figure import draw_figure
from miniinfer.ui.room import roomy

PAIRS = 8
LEAST_DISTANCE = 128  # the curve is drawn at least so far


def draw_rope(look: Look) -> None:
    run = look.live
    assert run is not None
    left, middle, _ = st.columns([4, 5, 9], vertical_alignment="bottom")
    stored = st.session_state.get(KEY)
    if isinstance(stored, int) and stored > look.position:
        st.session_state[KEY] = look.position
    key = left.number_input(
        "Key position", 0, look.position, value=None, key=KEY, placeholder="strongest",
        help="Empty: the key with the largest weight, the first token and the query itself left out. A line chosen in "
        "the row of the view “Scores to weights” fills it.", persist_state="session",
    )  # fmt: skip
    which = middle.segmented_control(
        "Pairs", ["fast to slow", "strongest"], default="fast to slow", key="attention_pairs", required=True,
        persist_state="session",
    )
    key = _strongest(look) if key is None else int(key)
    far = max(LEAST_DISTANCE, look.position)
    rotation = look.ask(lambda: rotation_of(run, look.layer, look.head, look.position, key, far))
    st.text(_sentence(look, rotation))
    pairs = (spread_pairs if which == "fast to slow" else strongest_pairs)(rotation, PAIRS)
    draw_figure(
        pairs_figure(rotation, pairs, look.colours, roomy(226, 2)), "attention_pairs_figure",
        f"{look.words}, key at {key}: pairs before and after RoPE",
    )
    st.markdown("**What would these two score at another distance?**")
    draw_figure(
        distance_figure(rotation, look.colours, roomy(176, 2)), "attention_distance",
        f"{look.words}, key at {key}: score over distance",
    )
    st.caption(
        "Pair i holds dimensions i and i + D/2; position p turns it by p × frequency, so q and k that stand d apart "
        "meet at an angle that depends on d only. Keys are cached after the turn; “before” is turned back from there. "
        "Figures: computed."
    )
    twin(
        "Table of the distances", "attention_distance", lambda: distances_table(rotation), Provenance.COMPUTED,
        "distances.csv",
    )  # fmt: skip
    twin(
        "Table of all pairs", "attention_rotation", lambda: rotation_table(rotation), Provenance.COMPUTED, "rope.csv"
    )


def _strongest(look: Look) -> int:
    """Neither the first token nor the query itself, if there is another."""
    before = look.weights[1:-1]
    return int(before.argmax()) + 1 if len(before) else 0


def _sentence(look: Look, rotation: Rotation) -> str:
    q, k = rotation.position, rotation.key
    far = " and ".join(f"{shift:,}" for shift in SHIFTS[-2:])
    steps = ", ".join([*(f"{shift:,}" for shift in SHIFTS[1:-2]), far])
    score, *moved = (f"{score:.5f}" for score in rotation.shifted)
    stays = f"it stays {score}" if {*moved} == {score} else f"it is {', '.join(moved)}; what differs is rounding"
    return (
        f"Query “{look.text(q)}” at {q} and key “{look.text(k)}” at {k}, {q - k} apart: q · k is "
        f"{float(rotation.products.sum()):.5f} after the rotation and {float(rotation.products_before.sum()):.5f} "
        f"without it; the score is {score}. With both moved on by {steps} positions {stays}: the distance alone "
        "counts."
    )
