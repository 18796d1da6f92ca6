"""Why a step takes its time: each stage under the two roofs of this machine, its memory and its arithmetic."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.cost_plots import roofline_figure
from miniinfer.figures.cost_tables import roofline_table
from miniinfer.figures.cost_words import machine_sentence, ms
from miniinfer.measure.records import Calibration, StepTimes
from miniinfer.measure.summary import weights_read
from miniinfer.provenance import Provenance
from miniinfer.ui.cost_look import PLOT, CostLook, calibrate_button, draw_table
from miniinfer.ui.cost_time import VIEW, measure_times_button

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
    found: tuple[StepTimes, StepTimes] | None = look.result(VIEW)
    calibration = look.calibration()
    with st.container(horizontal=True):
        calibrate_button(look, calibration)
        measure_times_button(look)
    if not isinstance(calibration, Calibration):
        st.text(calibration)
    else:
        st.caption(machine_sentence(calibration))
    if found is None:
        st.caption(
            "Once this run's steps are measured and the machine is calibrated, each stage stands here as a point: "
            "to the right the more it computes for each byte it moves, upwards the faster it computes. Where the "
            "sloped roof is above it, memory is the limit; where the flat one is, arithmetic."
        )
        return
    if not isinstance(calibration, Calibration):
        return
    if look.dtype not in calibration.operations_per_second:
        st.text(f"{look.dtype} was not calibrated; calibrate again.")
        return
    prefill, decode = found
    st.markdown(f"**{_headline(decode, calibration, look.dtype)}**")
    order = look.run.info.params.order
    st.plotly_chart(
        roofline_figure(found, calibration, look.dtype, order, look.colours, HEIGHT), key="cost_roofline", config=PLOT,
        alt="Roofline of this machine with each stage of a prefill and a decode step",
    )
    st.caption(
        "Square: prefill, round: decode; the larger, the more of its step's time. One token uses each weight once, "
        f"so decode does few operations for each byte; a prefill of {prefill.num_tokens:,} tokens uses each weight "
        f"{prefill.num_tokens:,} times for one reading. A point far under its roof waits for neither: that is the "
        "fixed cost of many small calls."
    )
    sources = {
        Provenance.MEASURED: "ms, GB/s, GFLOP/s",
        Provenance.COMPUTED: "bytes and operations, counted from the shapes",
        Provenance.ESTIMATED: "limited by, least ms, of the limit",
    }
    table = roofline_table(found, calibration, look.dtype, order)
    draw_table(table, "cost_roofline", sources, "roofline.csv", COLUMNS, height=190)


def _headline(decode: StepTimes, calibration: Calibration, dtype: str) -> str:
    """What a decode step would take if it only computed, and if it only moved its bytes."""
    num_bytes = sum(c.num_bytes for c in decode.costs)
    moving = calibration.seconds(num_bytes) * 1000
    computing = sum(c.operations for c in decode.costs) / calibration.operations_per_second[dtype] * 1000
    weights = f"{weights_read(decode) / num_bytes:.0%} of them weights"
    by_bytes = f"moving its bytes {ms(moving)}, {weights}"
    by_operations = f"its operations {ms(computing)}"
    what, parts = (
        ("Not arithmetic, moving bytes", f"{by_operations}, {by_bytes}") if moving >= computing
        else ("Arithmetic, not moving bytes", f"{by_bytes}, {by_operations}")
    )  # fmt: skip
    return f"{what}: of the {ms(decode.plain.median_ms)} of a decode step, {parts} (estimated)"
