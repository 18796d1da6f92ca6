"""What token 500 costs that token 5 did not: the curve from position 1 to 2,000 with its parts."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.cost.plots import curve_bytes_figure, curve_time_figure
from miniinfer.figures.cost.tables import curve_table
from miniinfer.figures.cost.words import busy_note, megabytes, times
from miniinfer.measure.progress import Measurement
from miniinfer.measure.records import Calibration, Curve
from miniinfer.provenance import Provenance
from miniinfer.ui.cost.look import CostLook, calibrate_button, measure_button
from miniinfer.ui.cost.task import Say
from miniinfer.ui.room import roomy
from miniinfer.ui.run_look import PLOT
from miniinfer.ui.table_twin import draw_table_twin

VIEW = "curve"
HEIGHT = 300
WHOLE, TWO = st.column_config.NumberColumn(format="localized"), st.column_config.NumberColumn(format="%.2f")
COLUMNS = dict.fromkeys(("weight bytes", "KV bytes", "other bytes", "bytes"), WHOLE) | dict.fromkeys(
    ("ms", "p10 ms", "p90 ms", "ratio", "estimated ms"), TWO
)


def draw_curve(look: CostLook) -> None:
    from miniinfer.measure.curve import LENGTHS, token_costs

    measured: Curve | None = look.result(VIEW)
    curve = measured or Curve(token_costs(look.model), ())
    calibration = look.calibration()
    own = [(m.context_len, m.step_ms) for m in look.run.steps if m.phase == "decode"]
    with st.container(horizontal=True):
        measure_button(
            look, VIEW, f"Measure at {len(LENGTHS)} lengths", lambda say: _measure(look, say),
            "Fills a cache of its own with this run's text, again and again, and times decode steps at "
            f"{', '.join(f'{n:,}' for n in LENGTHS)} positions in turn. The run is not touched. Up to a minute.",
        )
        calibrate_button(look, calibration, primary=False)
    st.markdown(f"**{_headline(curve)}**")
    left, right = st.columns(2, gap="medium")
    with left:
        st.plotly_chart(
            curve_bytes_figure(curve, look.colours, roomy(HEIGHT, 2)), key="cost_curve_bytes", config=PLOT,
            alt="Bytes that one token moves over the positions in the cache, by part",
        )
        st.caption("Weights are flat; the cache is a line that starts at nothing. Counted from the tensors: computed.")
    with right:
        known = calibration if isinstance(calibration, Calibration) else None
        if measured is None and known is None and not own:
            st.text(
                "No time yet: step the run on, and its decode steps stand here as points; measure at some lengths; or "
                f"calibrate. {calibration}"
            )
        else:
            st.plotly_chart(
                curve_time_figure(curve, own, known, look.colours, roomy(HEIGHT, 2)),
                key="cost_curve_time", config=PLOT, alt="Milliseconds of a decode step over the positions in the cache",
            )
            st.caption(_times_caption(curve, own, calibration))
    sources = {
        Provenance.COMPUTED: "bytes",
        **({Provenance.MEASURED: "ms, ratio to the shortest by round"} if curve.times else {}),
        **({Provenance.ESTIMATED: "estimated ms"} if known else {}),
    }
    draw_table_twin(
        curve_table(curve, known), "cost_curve", sources, "per-token.csv", columns=COLUMNS, height=roomy(190, 2)
    )


def _measure(look: CostLook, say: Say) -> Measurement[Curve]:
    from miniinfer.measure.curve import measure_curve

    return measure_curve(look.model, list(look.run.seq.token_ids))


def _headline(curve: Curve) -> str:
    first, last = curve.costs[0], curve.costs[-1]
    more = last.num_bytes - first.num_bytes
    text = (
        f"Token 1 moves {megabytes(first.num_bytes)} and token {last.context_len:,} {megabytes(last.num_bytes)}: "
        f"{more / first.num_bytes:.0%} more, most of it cache"
    )
    if len(curve.times) > 1:
        a, b = curve.times[0], curve.times[-1]
        text += f". Measured in turn, token {b.context_len:,} takes {times(b.ratio)} as long as token {a.context_len:,}"
    return text


def _times_caption(curve: Curve, own: list[tuple[int, float]], calibration: Calibration | str) -> str:
    said = f"Grey: the {len(own):,} decode steps of this run as it was stepped (measured). " if own else ""
    if curve.times:
        step = curve.times[0].step
        said += f"Line: medians of {step.rounds} with the 10th to 90th percentile, {step.warm_up} thrown away."
        said += busy_note([t.step for t in curve.times])
    if isinstance(calibration, Calibration):
        return f"{said} Dashed: all these bytes at {calibration.bytes_per_second / 1e9:.1f} GB/s, an estimate."
    return f"{said} {calibration}"
