"""The load report as tables: every fact with the key it was read from, or the rule it was derived by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from miniinfer.config import BACKENDS
from miniinfer.errors import MiniInferError, tame
from miniinfer.native.choose import backend_sentence
from miniinfer.provenance import Provenance
from miniinfer.ui.room import more_rows
from miniinfer.ui.sessions.engine_config import backend_for
from miniinfer.ui.table_twin import ROW, draw_table_twin, whole_rows

if TYPE_CHECKING:
    from miniinfer.models.loader import LoadedModel
    from miniinfer.models.report import KeptMatrix
    from miniinfer.ui.sessions.session import Session

FACTS = 14  # rows without scrolling
LISTED = 3  # fallbacks that stand in the sentence; all of them stand in the table


def draw_model_report(model: LoadedModel) -> None:
    """model.report, and nothing that is not in it."""
    report = model.report
    st.text(f"{model.name} · {model.device.upper()} · {model.dtype} · {tame(model.source.name)}")
    if model.conversion is not None:
        st.text(model.conversion.sentence)
    left, middle, right = st.columns(3)
    with left:
        _draw_pairs("Tensors in the file, by storage type (computed)", _pairs(report.tensor_types, "type", "tensors"))
    with middle:
        _draw_pairs("Memory held, in bytes (computed from the tensors)", _pairs(report.memory_bytes, "what", "bytes"))
    with right:
        seconds = {phase: round(value, 3) for phase, value in report.seconds.items()}
        _draw_pairs("Loading, in seconds (measured)", _pairs(seconds, "phase", "seconds"))
    if not report.kept:
        _draw_facts(model)
        return
    _say_what_fell_back(report.kept)
    facts, kept = st.tabs(["Facts", "How each matrix is kept"])
    with facts:
        _draw_facts(model)
    with kept:
        _draw_kept(model)


def draw_backend(model: LoadedModel, asked: str) -> None:
    """What computes the next new run: what was asked for, what that is here, and how it stands with it."""
    try:
        name = backend_for(model, asked).name
    except MiniInferError as error:
        st.text(f"Backend {asked}: {error}")
        return
    chosen = f"{name} (chosen by auto)" if asked == "auto" else name
    st.text(f"Backend of new runs: {chosen}. {BACKENDS[name]} {backend_sentence(asked)}")


def _draw_facts(model: LoadedModel) -> None:
    report = model.report
    facts = pd.DataFrame([{"fact": f.key, "value": f.value, "how": f.how, "from": f.why} for f in report.facts])
    st.caption("Each fact, whether it was read or derived, and the key or the rule that it comes from")
    draw_table_twin(
        facts, "model_facts", Provenance.COMPUTED, f"{model.name}-facts.csv",
        height=whole_rows(FACTS + more_rows(ROW)),
    )
    for note in report.notes:
        st.text(note)


def _say_what_fell_back(kept: Sequence[KeptMatrix]) -> None:
    fallen = [matrix for matrix in kept if matrix.why]
    said = [f"{' + '.join(m.names)} is kept as {m.kept}: {m.why}." for m in fallen[:LISTED]]
    more = [f"{len(fallen) - LISTED} more are listed below."] if len(fallen) > LISTED else []
    in_blocks = f"{len(kept) - len(fallen)} of {len(kept)} matrices keep the file's 4-bit blocks."
    st.text(" ".join([in_blocks, *said, *more]))


def _draw_kept(model: LoadedModel) -> None:
    """Packed mode: what became of every matrix, the fallbacks first."""
    rows = [
        {
            "tensors": " + ".join(matrix.names), "in the file": ", ".join(matrix.stored), "kept as": matrix.kept,
            "bytes": matrix.nbytes, "difference %": round(matrix.difference * 100, 4), "why not blocks": matrix.why,
        }
        for matrix in sorted(model.report.kept, key=lambda matrix: not matrix.why)
    ]  # fmt: skip
    draw_table_twin(pd.DataFrame(rows), "model_kept", Provenance.COMPUTED, f"{model.name}-kept.csv")
    st.caption(
        "Difference: root mean square of (kept - file), relative to that of the file's numbers. Products also round "
        "what goes in and out to bfloat16; the Precision view of the Cost page measures what both do to the logits."
    )


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


def _draw_pairs(caption: str, table: pd.DataFrame) -> None:
    st.caption(caption)
    form = st.column_config.NumberColumn(format="localized")
    st.dataframe(
        table, hide_index=True, width="stretch", height="content", row_height=ROW,
        column_config={table.columns[1]: form},
    )


def _pairs(values: Mapping[str, float], name: str, value: str) -> pd.DataFrame:
    return pd.DataFrame(list(values.items()), columns=[name, value])
