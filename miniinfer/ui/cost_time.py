"""Where the time of a step goes: a flame-like picture of prefill and of decode, and one table."""

from __future__ import annotations

import statistics
from typing import Any

import streamlit as st

from miniinfer.figures.cost_plots import Nesting, flame_figure
from miniinfer.figures.cost_tables import layers_table, run_table, time_table
from miniinfer.figures.cost_words import ms, step_sentence
from miniinfer.measure.progress import Measurement, part
from miniinfer.measure.records import StepTimes
from miniinfer.provenance import Provenance
from miniinfer.ui.cost_look import PLOT, CostLook, draw_table, measure_button
from miniinfer.ui.cost_task import Say

VIEW = "times"
LONG_PROMPT = 128  # tokens; longer ones are prefilled in fewer rounds
HEIGHT = 240
STAGES_FIRST = "stages, then layers"
NESTINGS: dict[str, Nesting] = {STAGES_FIRST: "stage", "layers, then stages": "layer"}
MS, SHARE = st.column_config.NumberColumn(format="%.2f"), st.column_config.NumberColumn(format="percent")
COLUMNS = {"prefill ms": MS, "of prefill": SHARE, "decode ms": MS, "of decode": SHARE}


def draw_time(look: CostLook) -> None:
    _run_so_far(look)
    found: tuple[StepTimes, StepTimes] | None = look.result(VIEW)
    with st.container(horizontal=True, vertical_alignment="center"):
        measure_times_button(look)
        nesting = st.segmented_control(
            "Under each part", list(NESTINGS), default=STAGES_FIRST,
            key="cost_nesting", required=True, label_visibility="collapsed", disabled=found is None,
        )
    if found is None:
        st.caption(
            "Then two pictures will stand here: a prefill of this run's prompt and a decode step at its newest "
            "position, each as wide as its time, cut into attention, MLP, unembed, sampling and bookkeeping, down to "
            f"one stage of one layer. Device: {look.where}."
        )
        return
    order = look.run.info.params.order
    for column, step in zip(st.columns(2, gap="medium"), found, strict=True):
        with column:
            st.markdown(f"**Where does a {step.phase} step spend its time?**")
            st.plotly_chart(
                flame_figure(step, order, NESTINGS[nesting or STAGES_FIRST], look.colours, HEIGHT),
                key=f"cost_flame_{step.phase}", config=PLOT, alt=f"Parts of a {step.phase} step by their time",
            )
            st.caption(step_sentence(step))
    sources = {
        Provenance.MEASURED: "all times, means of the middle half of the rounds, which add up; the CSV has every layer "
        "with its bytes and operations",
        Provenance.COMPUTED: "shares, bytes, operations",
    }
    draw_table(
        time_table(*found, order), "cost_time", sources, "stage-times.csv", COLUMNS, layers_table(found, order),
        height=232,
    )


def measure_times_button(look: CostLook) -> None:
    """The measurement that three views share."""
    measure_button(
        look, VIEW, "Measure this run's steps", lambda say: _measure(look, say),
        "Repeats its prefill and a decode step about its newest position in a sequence of their own, with a clock at "
        "every stage and without. The run itself is not touched and its ordinary steps stay unwatched. A few seconds.",
    )


def _measure(look: CostLook, say: Say) -> Measurement[tuple[StepTimes, StepTimes]]:
    from miniinfer.measure.stage_times import measure_decode, measure_prefill

    info, ids = look.run.info, list(look.run.seq.token_ids)
    prompt = ids[: info.num_prompt_tokens]
    length = max(look.run.seq.num_computed_tokens, info.num_prompt_tokens + 1)
    rounds = 8 if len(prompt) <= LONG_PROMPT else 4

    def both() -> Measurement[tuple[StepTimes, StepTimes]]:
        prefill = yield from part(measure_prefill(look.model, prompt, info.params, rounds=rounds), 0, 0.5)
        decode = yield from part(measure_decode(look.model, ids, length, info.params), 0.5, 1)
        return prefill, decode

    return both()


def _run_so_far(look: CostLook) -> None:
    """Time to first token and time per output token, from the run's own steps."""
    steps = look.run.steps
    first = next((i for i, m in enumerate(steps) if m.token_id is not None), None)
    if first is None:
        st.text("This run has no token yet: press the arrow key → or the step button above.")
        return
    to_first = sum(m.step_ms for m in steps[: first + 1])
    later = [m.step_ms for m in steps[first + 1 :]]
    said = (
        f"time per output token {ms(statistics.median(later))} (median of {len(later)} decode steps)" if later
        else "time per output token: step once more, for the first decode step"
    )
    passes = "one pass" if first == 0 else f"{first + 1} steps"
    st.text(
        f"This run as it was stepped (measured, {look.where}): time to first token {ms(to_first)} ({passes}, "
        f"{look.run.info.num_prompt_tokens:,} prompt tokens); {said}."
    )


def run_steps_table(look: CostLook) -> None:
    """Every step of the run, with its own time."""
    columns: dict[str, Any] = {"ms": MS, "weight bytes": BYTES, "KV bytes": BYTES}
    sources = {Provenance.MEASURED: "ms, of the run as it was stepped", Provenance.COMPUTED: "bytes read"}
    draw_table(run_table(look.run.steps), "cost_run", sources, "run-steps.csv", columns)


BYTES = st.column_config.NumberColumn(format="localized")
