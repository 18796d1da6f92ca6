"""What must hold inside a step, checked on every row, with the largest difference found."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from miniinfer.figures.inside.tables import identities_by_layer, identities_table
from miniinfer.provenance import Provenance
from miniinfer.trace.inside.identities import Identity, check_identities
from miniinfer.ui.inside.look import InsideLook
from miniinfer.ui.table_twin import draw_table_twin

DIFFERENCE = st.column_config.NumberColumn(format="%.3g")


def draw_checks(look: InsideLook) -> None:
    found = look.replay("checks", lambda: check_identities(look.run, look.rows))
    broken = [i for i in found if not i.holds]
    st.markdown("**Does the step do what it says?**")
    layers = f"in {look.layers} layers, on {look.rows.count:,} {'row' if look.rows.count == 1 else 'rows'}"
    st.text(
        f"{len(found) - len(broken)} of {len(found)} identities hold {layers}."
        + "".join(f" Broken: {i.statement} (off by {i.largest:.3g}{_in_layer(i)})." for i in broken)
    )
    with st.container(key="inside_checks"):
        _table(found)
    st.caption(
        "0 is bit-equal. What is allowed is 64 roundings of the model's precision, or nothing where both sides are the "
        "same sum. Relative: to the size of the numbers themselves. Computed on a replay of this step."
    )
    with st.expander("Largest difference of each layer"):
        frame = identities_by_layer(found, look.layers)
        draw_table_twin(frame, "inside_checks_layers", Provenance.COMPUTED, "checks_by_layer.csv")
        draw_table_twin(identities_table(found), "inside_checks_twin", Provenance.COMPUTED, "checks.csv")


def _in_layer(identity: Identity) -> str:
    return "" if identity.layer is None else f" in layer {identity.layer}"


def _table(found: Sequence[Identity]) -> None:
    st.dataframe(
        identities_table(found), key="inside_checks_rows", hide_index=True, width="stretch", height="content",
        row_height=30, placeholder="",
        column_config={
            "": st.column_config.TextColumn(width=28), "what must hold": st.column_config.TextColumn(width=330),
            "measured": st.column_config.TextColumn(width=80),
            "largest difference": DIFFERENCE, "allowed": DIFFERENCE,
            "in layer": st.column_config.NumberColumn(format="%d"),
        },
    )  # fmt: skip
