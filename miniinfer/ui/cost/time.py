"""Where the time of a step goes: prefill against decode as a flame-like picture, every step as a bar, and one table.

What the run itself recorded stands there at once; a measurement beside it, layer by layer, on request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from miniinfer.figures.cost.plots import Nesting, flame_figure
from miniinfer.figures.cost.run_times import RECORDING, parts_of, steps_time_figure, steps_window
from miniinfer.figures.cost.tables import layers_table, run_table, time_table
from miniinfer.figures.cost.words import megabytes, step_sentence
from miniinfer.figures.kv.words import count
from miniinfer.measure.progress import Measurement, part
from miniinfer.measure.records import StepTimes
from miniinfer.provenance import Provenance
from miniinfer.trace.records import StepMeta
from miniinfer.ui.cost.look import CostLook, decode_length, measure_button
from miniinfer.ui.cost.run import draw_run_times, recorded_pair, source_of
from miniinfer.ui.cost.task import Say
from miniinfer.ui.page import draw_before_first_token
from miniinfer.ui.room import room, roomy
from miniinfer.ui.run_look import PLOT, RunLook, first_step_tokens
from miniinfer.ui.table_twin import draw_table_twin

VIEW = "times"
LONG_PROMPT = 128  # tokens; longer ones are prefilled in fewer rounds
FLAME, FINE_FLAME, BARS, TABLE = 186, 212, 300, 258  # px
STAGES_FIRST = "stages, then layers"
NESTINGS: dict[str, Nesting] = {STAGES_FIRST: "stage", "layers, then stages": "layer"}
AS_STEPPED, BESIDE = "as it was stepped", "measured beside it"
MS, SHARE = st.column_config.NumberColumn(format="%.2f"), st.column_config.NumberColumn(format="percent")
COLUMNS = {
    "part": st.column_config.TextColumn(width=92), "stage": st.column_config.TextColumn(width=106),
    "prefill ms": MS, "of prefill": SHARE, "decode ms": MS, "of decode": SHARE,
}  # fmt: skip


def draw_time(look: CostLook) -> None:
    if not look.run.steps:
        draw_nothing_timed(look)
        return
    found: tuple[StepTimes, StepTimes] | None = look.result(VIEW)
    draw_run_times(look)
    with st.container(horizontal=True, vertical_alignment="center"):
        way = AS_STEPPED
        if found:
            way = st.segmented_control(
                "Times", [AS_STEPPED, BESIDE], default=BESIDE, key=f"cost_way_{look.run.info.run_id}", required=True,
                label_visibility="collapsed",
            ) or BESIDE  # fmt: skip
        nesting = STAGES_FIRST
        if way == BESIDE:
            nesting = st.segmented_control(
                "Under each part", list(NESTINGS), default=STAGES_FIRST, key="cost_nesting", required=True,
                label_visibility="collapsed",
            ) or STAGES_FIRST  # fmt: skip
        measure_times_button(look)
        if not found:
            st.caption("For each layer by itself, with warm-up thrown away. What stands here was recorded in the run.")
    if found and way == BESIDE:
        _draw_measured(look, found, NESTINGS[nesting])
    else:
        draw_run_steps(look)


def draw_nothing_timed(look: CostLook) -> None:
    """Before the first step: what it will cost, as far as that can be known."""
    tokens, prompt, weights = first_step_tokens(look.run), look.run.info.num_prompt_tokens, look.run.engine.weights
    read = weights.nbytes - (0 if tokens == prompt else weights.unembed.nbytes)  # nobody is sampled before the end
    part = "the whole prompt" if tokens == prompt else f"the first of {prompt:,} prompt tokens"
    draw_before_first_token(look.session, "cost", "What will the first step cost?", [
        f"Step 1 sends {part} through the model, {count(tokens, 'token')}, and reads {megabytes(read)} of weights once "
        "for all of them (computed). Each decode step after it reads them again for one token. Which takes longer?",
        "Time to first token and per output token, and every stage of prefill and decode, will stand here, as the "
        "run's own steps took them.",
    ])  # fmt: skip


def draw_run_steps(look: RunLook[Any]) -> None:
    """The step at the cursor against the other phase, from what the recorder kept of them."""
    steps, order = look.run.steps, look.run.info.params.order
    pair = recorded_pair(look)
    parts = [parts_of(metas) if metas else None for metas in pair]
    for column, metas, phase in zip(st.columns(2, gap="small"), pair, ("prefill", "decode"), strict=True):
        column.markdown(f"**{_title(look, metas, phase)}**")
    st.plotly_chart(
        flame_figure(parts, order, "stage", look.colours, roomy(FLAME, 4), gap=RECORDING),
        key="cost_flame", config=PLOT, alt="Parts of a prefill and of a decode step by their time",
    )
    left, right = st.columns([4, 5], gap="medium")
    more = room() - room() // 4  # than in a window of 900 px
    window = steps_window(steps, look.step)
    with left:
        shown = "" if len(window) == len(steps) else f" (steps {window[0].step:,} to {window[-1].step:,})"
        st.markdown(f"**How long did each step take?{shown}**")
        st.plotly_chart(
            steps_time_figure(window, look.step, look.colours, BARS + more), key="cost_steps", config=PLOT,
            alt="Milliseconds of every step by its parts, the step at the cursor ringed",
        )
    with right:
        sources = {source_of(look): "all times, in the run", Provenance.COMPUTED: "shares; the CSV has every step"}
        draw_table_twin(
            time_table(parts, order, RECORDING), "cost_time", sources, "run-steps.csv", columns=COLUMNS,
            height=TABLE + more, narrow=True, csv=lambda: run_table(steps),
        )


def _title(look: RunLook[Any], metas: Sequence[StepMeta], phase: str) -> str:
    if not metas:
        return f"No {phase} step: the run has ended" if look.run.finish_reason else f"No {phase} step yet: step on"
    here = ", the step you are on" if len(metas) == 1 and metas[0].step == look.step else ""
    if len(metas) > 1:
        return f"Prefill, {len(metas):,} steps together"
    return f"{phase.capitalize()}, step {metas[0].step}{here}"


def _draw_measured(look: CostLook, found: tuple[StepTimes, StepTimes], nesting: Nesting) -> None:
    order = look.run.info.params.order
    for column, step in zip(st.columns(2, gap="small"), found, strict=True):
        with column:
            st.markdown(f"**Where does a {step.phase} step spend its time?**")
            st.caption(step_sentence(step))
    st.plotly_chart(
        flame_figure(found, order, nesting, look.colours, roomy(FINE_FLAME, 2)), key="cost_flame", config=PLOT,
        alt="Parts of a prefill and of a decode step by their time",
    )
    sources = {
        Provenance.MEASURED: "all times, means of the middle half of the rounds, which add up; the CSV has every layer "
        "with its bytes and operations",
        Provenance.COMPUTED: "shares, bytes, operations",
    }
    draw_table_twin(
        time_table(found, order), "cost_time", sources, "stage-times.csv", columns=COLUMNS,
        height=roomy(TABLE, 2), csv=lambda: layers_table(found, order),
    )


def measure_times_button(look: CostLook) -> None:
    """The measurement that two views share."""
    measure_button(
        look, VIEW, "Measure layer by layer", lambda say: _measure(look, say),
        "Repeats this run's prefill and a decode step about its newest position in a sequence of their own, with a "
        "clock at every stage and without. The run itself is not touched and its ordinary steps stay as they are. A "
        "few seconds.", primary=False,
    )  # fmt: skip


def _measure(look: CostLook, say: Say) -> Measurement[tuple[StepTimes, StepTimes]]:
    from miniinfer.measure.stage_times import measure_decode, measure_prefill

    info, ids = look.run.info, list(look.run.seq.token_ids)
    prompt = ids[: min(info.num_prompt_tokens, look.most_tokens)]
    length = decode_length(look)
    rounds = 8 if len(prompt) <= LONG_PROMPT else 4

    def both() -> Measurement[tuple[StepTimes, StepTimes]]:
        prefill = yield from part(measure_prefill(look.model, prompt, info.params, rounds=rounds), 0, 0.5)
        decode = yield from part(measure_decode(look.model, ids, length, info.params), 0.5, 1)
        return prefill, decode

    return both()


def run_steps_table(look: CostLook, source: Provenance) -> None:
    """Every step of the run, with its own time. source: of the times."""
    frame = run_table(look.run.steps)
    times = {name: MS for name in frame.columns if name.endswith("ms")}
    columns: dict[str, Any] = times | {"weight bytes": BYTES, "KV bytes": BYTES}
    sources = {source: "ms, of the run as it was stepped", Provenance.COMPUTED: "bytes read"}
    draw_table_twin(frame, "cost_run", sources, "run-steps.csv", columns=columns, height=220)


BYTES = st.column_config.NumberColumn(format="localized")
