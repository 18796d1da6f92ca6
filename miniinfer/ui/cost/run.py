"""What the run itself says of its time: its own steps as they were stepped. Nothing is measured for it."""

from __future__ import annotations

from typing import Any

import streamlit as st

from miniinfer.figures.cost.run_times import parts_of, prefill_and_decode, run_times
from miniinfer.figures.cost.words import ms
from miniinfer.figures.sampling.words import setting
from miniinfer.measure.records import CountedParts
from miniinfer.provenance import Provenance
from miniinfer.trace.records import StepMeta
from miniinfer.ui.cost.look import CostLook
from miniinfer.ui.run_look import RunLook

OFF = ("off", "1 = off", "idle: greedy", "0 = greedy")


def draw_run_times(look: RunLook[Any]) -> None:
    """Time to first token, time per output token, and the step at the cursor with what recording it took."""
    found, meta = run_times(look.run.steps), look.meta
    first, output, here, beside = st.columns(4)
    first.metric(
        "Time to first token", ms(found.to_first) if found else "none yet",
        help="All steps up to the one that chose the first token, without what recording them took.",
    )
    output.metric(
        "Time per output token", ms(found.per_output) if found and found.per_output is not None else "none yet",
        help="The median of the decode steps: each makes one token from the one before it.",
    )
    here.metric(
        f"Step {meta.step}, {meta.phase}" if meta else "Before step 1", ms(meta.step_ms) if meta else "nothing ran",
        help="The sum of its stages, each timed from the end of the one before it.",
    )
    kept = meta is not None and meta.recording_ms is not None
    beside.metric(
        "Recording this step", ms(meta.recording_ms or 0) if meta and kept else "not kept" if meta else "nothing",
        help="What keeping queries, norms and times for the panels took between the stages; in no stage and not in the "
        "step. A step that nobody looks at does without.",
    )
    st.caption(_told(look))


def _told(look: RunLook[Any]) -> str:
    """Where these four come from."""
    found, info = run_times(look.run.steps), look.run.info
    if found is None and look.run.finish_reason:
        return f"This run ended ({look.run.finish_reason}) without an output token."
    if found is None:
        return "The prompt is still being prefilled: no step has chosen a token."
    passes = "in one pass" if found.first_steps == 1 else f"in {found.first_steps:,} steps"
    later = f", median of {found.decode_steps:,} decode steps" if found.decode_steps else ""
    said = f"{source_of(look).value.capitalize()}, in the run, as it was stepped ({info.device.upper()}): "
    said += f"{info.num_prompt_tokens:,} prompt tokens {passes}{later}."
    if info.resumed:
        said += f" Steps 1 to {info.resumed} came back from a saved run with the times of then."
    if info.device.startswith("mps"):
        said += " On this device a stage's clock stops when its work is queued; the wait for it falls on sampling."
    return said


def source_of(look: RunLook[Any]) -> Provenance:
    """Of the times of the step at the cursor. A run that came back, or a recording, has those of before."""
    info = look.run.info
    known = info.kind == "recorded" or (look.meta is not None and look.meta.step <= info.resumed)
    return Provenance.RECORDED if known else Provenance.MEASURED


def recorded_pair(look: RunLook[Any]) -> tuple[list[StepMeta], list[StepMeta]]:
    """The prefill and the decode step that are held against each other at this cursor; either may be empty."""
    return prefill_and_decode(look.run.steps, look.step)


def counted_pair(look: CostLook) -> tuple[CountedParts, ...]:
    """The same with bytes and operations, counted; of a prefill in several steps its last one."""
    return tuple(_counted(look, metas[-1]) for metas in recorded_pair(look) if metas)


def _counted(look: CostLook, meta: StepMeta) -> CountedParts:
    from miniinfer.measure.counting import StepShape, count_step

    parts, engine, params = parts_of([meta]), look.run.engine, look.run.params_of(meta.step)
    changed = {f"processor_{i}" for i, name in enumerate(params.order, 1) if setting(name, params) not in OFF}
    sampled = int(meta.token_id is not None)
    shape = StepShape(
        meta.num_scheduled, sampled, ((1, meta.num_scheduled, meta.context_len),), frozenset(changed)
    )
    costs = count_step(engine.program, engine.weights, engine.model_config, shape)
    return CountedParts(parts.phase, parts.num_tokens, parts.context_len, parts.step_ms, parts.stages, costs)
