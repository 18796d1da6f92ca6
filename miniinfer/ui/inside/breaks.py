"""Breakpoints as the user sets them; they are values, made anew from the widgets for each run."""

from __future__ import annotations

import streamlit as st

from miniinfer.trace.inside.breakpoints import AtStage, Breakpoint, NormJump, NotFinite
from miniinfer.ui.inside.look import InsideLook

ANY = "any tensor"
ANY_LAYER = "any layer"
NONE = "none"
WATCHED = [
    "resid_post", "resid_mid", "attn_out", "mlp_out", "mlp_hidden", "q", "k", "v", "z", ANY,
]  # fmt: skip


def draw_breakpoints(look: InsideLook) -> None:
    with st.popover(_summary(look), width="stretch"):
        st.toggle("A value is not finite", value=True, key="inside_break_finite", persist_state="session")
        st.toggle("A norm jumps", key="inside_break_norm", persist_state="session")
        left, right = st.columns(2)
        left.number_input(
            "by the factor", min_value=1.05, value=3.0, step=0.5, key="inside_break_factor", format="%.2f",
            help="From one layer to the next, up or down.", persist_state="session",
        )
        right.selectbox("of", WATCHED, key="inside_break_tensor", persist_state="session")
        st.toggle(
            "at any position, not only the one looked at", key="inside_break_rows", persist_state="session",
        )
        names = [NONE, *dict.fromkeys(s.name for s in look.run.engine.program)]
        left, right = st.columns(2)
        left.selectbox("A stage is reached", names, key="inside_break_stage", persist_state="session")
        right.selectbox(
            "in layer", [ANY_LAYER, *map(str, range(look.layers))], key="inside_break_layer", persist_state="session",
        )
        st.caption("Run goes on stage by stage until one of these is true, or to the end of the step.")


def chosen_breakpoints(look: InsideLook) -> list[Breakpoint]:
    """Raises BadInputError for a factor that is no jump."""
    state = st.session_state
    found: list[Breakpoint] = []
    if state.get("inside_break_finite", True):
        found.append(NotFinite())
    if state.get("inside_break_norm"):
        name = state.get("inside_break_tensor", WATCHED[0])
        row = None if state.get("inside_break_rows") else look.row
        found.append(NormJump(float(state.get("inside_break_factor", 3.0)), None if name == ANY else name, row))
    stage = state.get("inside_break_stage", NONE)
    if stage != NONE:
        layer = state.get("inside_break_layer", ANY_LAYER)
        found.append(AtStage(stage, None if layer == ANY_LAYER else int(layer)))
    return found


def _summary(look: InsideLook) -> str:
    words = []
    for breakpoint in chosen_breakpoints(look):
        if isinstance(breakpoint, NotFinite):
            words.append("not finite")
        elif isinstance(breakpoint, NormJump):
            words.append(f"{breakpoint.name or 'norm'} × {breakpoint.factor:g}")
        elif isinstance(breakpoint, AtStage):
            words.append(breakpoint.name if breakpoint.layer is None else f"{breakpoint.name} in {breakpoint.layer}")
    return f"Breakpoints: {', '.join(words)}" if words else "Breakpoints: none"
