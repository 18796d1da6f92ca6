"""The load report as tables: every fact with the key it was read from, or the rule it was derived by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from miniinfer.provenance import Provenance
from miniinfer.ui.table_twin import draw_table_twin

if TYPE_CHECKING:
    from miniinfer.models.loader import LoadedModel
    from miniinfer.ui.session import Session


def draw_model_report(model: LoadedModel) -> None:
    """model.report, and nothing that is not in it."""
    report = model.report
    st.text(f"{model.name} · {model.device.upper()} · {model.dtype} · {model.source.name}")
    left, middle, right = st.columns(3)
    with left:
        st.caption("Tensors in the file, by storage type (computed)")
        st.dataframe(_pairs(report.tensor_types, "type", "tensors"), hide_index=True, width="stretch")
    with middle:
        st.caption("Memory held, in bytes (computed from the tensors)")
        st.dataframe(_pairs(report.memory_bytes, "what", "bytes"), hide_index=True, width="stretch")
    with right:
        st.caption("Loading, in seconds (measured)")
        seconds = {phase: round(value, 3) for phase, value in report.seconds.items()}
        st.dataframe(_pairs(seconds, "phase", "seconds"), hide_index=True, width="stretch")
    facts = pd.DataFrame([{"fact": f.key, "value": f.value, "how": f.how, "from": f.why} for f in report.facts])
    draw_table_twin(facts, "model_facts", Provenance.COMPUTED, f"{model.name}-facts.csv")
    for note in report.notes:
        st.text(note)


def draw_held_models(session: Session) -> None:
    """Earlier runs keep the model they were made with, so that they can go on; that memory can be given back."""
    held = session.held_models()
    if not held:
        return
    left, right = st.columns([3, 1], vertical_alignment="center")
    words = ", ".join(f"{name} ({size / 1e6:,.0f} MB of weights, computed)" for name, size in held.items())
    left.text(f"Earlier runs still hold in memory: {words}. The run in view keeps its model.")
    if right.button("Let those runs go", key="drop_other_models"):
        session.drop_runs_of_other_models()
        st.rerun()


def _pairs(values: Mapping[str, float], name: str, value: str) -> pd.DataFrame:
    return pd.DataFrame(list(values.items()), columns=[name, value])
