"""Torch and what stands in for it side by side, stage by stage: what moving bytes costs, and what Python costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import streamlit as st

from miniinfer.config import BACKENDS
from miniinfer.figures.cost.backends import (
    agreement_words,
    backends_headline,
    backends_table,
    backends_words,
    split_figure,
    stages_figure,
    taken_words,
)
from miniinfer.figures.cost.words import busy_note, megabytes
from miniinfer.figures.kv.words import listed
from miniinfer.measure.progress import Measurement
from miniinfer.measure.records import BackendComparison
from miniinfer.provenance import Provenance
from miniinfer.ui.cost.look import CostLook, decode_length, measure_button
from miniinfer.ui.cost.task import Say
from miniinfer.ui.page import card
from miniinfer.ui.room import roomy
from miniinfer.ui.run_look import PLOT
from miniinfer.ui.table_twin import draw_table_twin

if TYPE_CHECKING:
    from miniinfer.engine.backend import Backend

VIEW = "backends"
BARS, STAGES, TABLE = 170, 360, 190  # px
MS, WHOLE = st.column_config.NumberColumn(format="%.2f"), st.column_config.NumberColumn(format="localized")
THREE = st.column_config.NumberColumn(format="%.3f")
OPERATIONS = st.column_config.NumberColumn(
    format="localized", help="How many operations torch was asked for in one step. Where the compiled core computes, "
    "torch is asked for memory alone."
)
COLUMNS = {
    "torch ms": MS, "native ms": MS, "graph ms": MS, "ratio": MS, "torch : native": MS, "torch : graph": MS,
    "bytes": WHOLE, "native bytes": WHOLE, "graph bytes": WHOLE, "moving ms": THREE,
    "torch operations": OPERATIONS, "native operations": OPERATIONS, "graph operations": OPERATIONS,
}  # fmt: skip


def draw_backends(look: CostLook) -> None:
    found: BackendComparison | None = look.result(VIEW)
    missing, others = why_not_native(look), _others(look)
    measure_button(
        look, VIEW, f"Measure {listed(['torch', *others])} in turn" if others else "Measure torch alone",
        lambda say: _measure(look, say),
        "Repeats a decode step about this run's newest position in engines of their own, in turn, with a clock at "
        "every stage and without. The run is not touched. Some five seconds"
        + ("." if "native" not in others else "; the core is compiled first if nobody has done so yet."),
    )
    if found is None:
        _explain(look, missing)
        return
    st.markdown(f"**{backends_headline(found)}**")
    left, right = st.columns([4, 7], gap="medium")
    with left:
        st.plotly_chart(
            split_figure(found, look.colours, roomy(BARS, 2)), key="cost_split", config=PLOT,
            alt="A step of each backend, cut into moving bytes, asking torch, and everything else",
        )
        st.text(backends_words(found))
        agreed = [agreement_words(run, found.runs[0]) for run in found.runs[1:]]
        st.caption(" ".join([taken_words(found), *agreed]) + busy_note([run.step.plain for run in found.runs]))
        if missing and len(found.runs) == 1:
            st.caption(missing)
    with right:
        st.plotly_chart(
            stages_figure(found, look.run.info.params.order, look.colours, roomy(STAGES, 2)),
            key="cost_stages", config=PLOT, alt="Every stage by each backend, and what moving its bytes takes",
        )
    sources = {
        Provenance.MEASURED: "ms, means of the middle half of the rounds", Provenance.COMPUTED: "bytes, operations",
        Provenance.ESTIMATED: "moving ms",
    }  # fmt: skip
    table = backends_table(found, look.run.info.params.order)
    draw_table_twin(table, "cost_backends", sources, "backends.csv", columns=COLUMNS, height=roomy(TABLE, 2))


def _explain(look: CostLook, missing: str | None) -> None:
    """Before anything is measured: what the two are, and what there is to see."""
    info = look.run.info
    with card("The same stages, in Python with torch and in a compiled core: what does Python cost?"):
        st.text("torch: the readable program. Each stage is Python that asks torch for one operation after another.")
        st.text(
            "native: the compiled core. Each stage of a decode step is one call into C++, with the same names, the "
            "same tensors and the same weights in memory."
        )
        if "graph" in _others(look):
            st.text(f"graph: {BACKENDS['graph']}")
        st.text(
            f"Any way a step has to read {megabytes(look.run.engine.weights.nbytes)} of weights (computed). Every "
            "stage of each, what moving its bytes takes, and how many operations Python asks torch for, will stand "
            f"here. This run is computed by {info.backend}."
        )
        if missing:
            st.text(missing)


def _others(look: CostLook) -> list[str]:
    """What is measured beside torch: what can compute this run's model, as far as is known."""
    captures = look.run.info.backend == "graph" or look.run.engine.device.type == "cuda"
    return [*(["native"] if why_not_native(look) is None else []), *(["graph"] if captures else [])]


def why_not_native(look: CostLook) -> str | None:
    """Why the core cannot compute this run's model, in a sentence; None if it can, as far as is known."""
    from miniinfer.native.choose import NATIVE, switched_off, why_unfit

    return why_unfit(look.run.engine.model.weights) or switched_off() or NATIVE.failure


def _measure(look: CostLook, say: Say) -> Measurement[BackendComparison]:
    """The core is compiled in the task's own thread if need be, so that other tabs go on."""
    from miniinfer.measure.backends import measure_backends

    say("looking for the compiled core")
    backends = list(_backends(look))
    length = decode_length(look)
    return measure_backends(look.model, list(look.run.seq.token_ids), length, look.run.info.params, backends)


def _backends(look: CostLook) -> Iterator[Backend]:
    from miniinfer.engine.backend import TORCH
    from miniinfer.native.choose import NATIVE, choose_backend

    yield TORCH
    if why_not_native(look) is None and (native := NATIVE.backend(wait=True)) is not None:
        yield native
    if "graph" in _others(look):
        yield choose_backend("graph", look.run.engine.model.weights)
