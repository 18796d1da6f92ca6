"""Why a step takes its time: each stage under the two roofs of this machine, its memory and its arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from miniinfer.figures.cost.roofline import roofline_figure
from miniinfer.figures.cost.tables import roofline_table
from miniinfer.figures.cost.words import machine_sentence, megabytes, ms
from miniinfer.measure.records import Calibration, CountedParts, StepTimes
from miniinfer.measure.summary import weights_read
from miniinfer.provenance import Provenance
from miniinfer.ui.cost.look import CostLook, calibrate_button
from miniinfer.ui.cost.run import counted_pair
from miniinfer.ui.cost.time import VIEW, draw_nothing_timed, measure_times_button
from miniinfer.ui.room import roomy
from miniinfer.ui.run_look import PLOT
from miniinfer.ui.table_twin import draw_table_twin

HEIGHT = 330
WHOLE = st.column_config.NumberColumn(format="localized")
TWO = st.column_config.NumberColumn(format="%.2f")
COLUMNS = {
    "ms": TWO, "bytes": WHOLE, "of them weights": WHOLE, "of them KV": WHOLE, "operations": WHOLE,
    "operations per byte": TWO, "GB/s": TWO, "GFLOP/s": TWO, "least ms": st.column_config.NumberColumn(format="%.3f"),
    "of the limit": st.column_config.NumberColumn(
        format="percent", help="The least time that the calibrated machine needs, over the time that was measured. "
        "Above 100 %: the machine was busier during the calibration, or the data was still in the processor's cache.",
    ),
}  # fmt: skip


def draw_roofline(look: CostLook) -> None:
    if not look.run.steps:
        draw_nothing_timed(look)
        return
    measured: tuple[StepTimes, StepTimes] | None = look.result(VIEW)
    calibration, roofs = look.calibration(), None
    with st.container(horizontal=True, vertical_alignment="center"):
        calibrate_button(look, calibration)
        measure_times_button(look)
        if not isinstance(calibration, Calibration):
            st.caption(f"{calibration} With it, the roofs are drawn.")
        elif look.dtype not in calibration.operations_per_second:
            st.caption(f"{look.dtype} was not calibrated; calibrate again.")
        else:
            roofs = calibration
            st.caption(machine_sentence(calibration))
    steps: Sequence[CountedParts] = measured or counted_pair(look)
    order = look.run.info.params.order
    st.markdown(f"**{_headline(steps, roofs, look.dtype)}**")
    st.plotly_chart(
        roofline_figure(steps, roofs, look.dtype, order, look.colours, roomy(HEIGHT, 2)),
        key="cost_roofline", config=PLOT,
        alt="Each stage of a prefill and a decode step by its operations a byte and a second, and the machine's roofs",
    )
    st.caption(_reading(steps))
    whose = "measured beside the run" if measured else "in the run, as it was stepped"
    sources = {
        Provenance.MEASURED: f"ms, GB/s, GFLOP/s, {whose}",
        Provenance.COMPUTED: "bytes and operations, counted from the shapes",
        Provenance.ESTIMATED: "limited by, least ms, of the limit",
    }
    if roofs is None:
        del sources[Provenance.ESTIMATED]
    table = roofline_table(steps, roofs, look.dtype, order)
    draw_table_twin(table, "cost_roofline", sources, "roofline.csv", columns=COLUMNS, height=roomy(190, 2))


def _reading(steps: Sequence[CountedParts]) -> str:
    """How to read the picture."""
    wide = next((step.num_tokens for step in steps if step.phase == "prefill" and step.num_tokens > 1), None)
    text = (
        "Square: prefill, round: decode; the larger, the more of its step's time. To the right, the more it computes "
        "for each byte it moves. One token uses each weight once, so decode does few operations for each byte"
    )
    if wide:
        text += f"; a prefill of {wide:,} tokens uses each weight {wide:,} times for one reading"
    return (
        f"{text}. Where the sloped roof is above a point, memory is the limit; where the flat one is, arithmetic. A "
        "point far under its roof waits for neither: that is the fixed cost of many small calls."
    )


def _headline(steps: Sequence[CountedParts], calibration: Calibration | None, dtype: str) -> str:
    """What the step would take if it only computed, and if it only moved its bytes."""
    step = steps[-1]  # decode, as soon as there is one
    num_bytes, operations = sum(c.num_bytes for c in step.costs), sum(c.operations for c in step.costs)
    weights = f"{weights_read(step) / num_bytes:.0%} of them weights"
    took = ms(step.plain.median_ms if isinstance(step, StepTimes) else step.step_ms - step.gap_ms)
    if calibration is None:
        return (
            f"A {step.phase} step moves {megabytes(num_bytes)}, {weights}, for {operations / 1e6:,.0f} million "
            f"operations: {operations / num_bytes:.2g} for each byte (computed). It took {took}"
        )
    moving = calibration.seconds(num_bytes) * 1000
    computing = operations / calibration.operations_per_second[dtype] * 1000
    by_bytes, by_operations = f"moving its bytes takes {ms(moving)}, {weights}", f"its operations take {ms(computing)}"
    what, parts = (
        ("Not arithmetic, moving bytes", f"{by_operations}, {by_bytes}") if moving >= computing
        else ("Arithmetic, not moving bytes", f"{by_bytes}, {by_operations}")
    )  # fmt: skip
    return f"{what}: of the {took} of a {step.phase} step, {parts} (estimated)"
