"""The stages of a decode step that are kept. Each is its torch stage: what that one writes, into the same memory."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from miniinfer.engine.graph.step import GraphStep
from miniinfer.engine.stage import Stage, StageFunction
from miniinfer.engine.stages import attention, mlp, output

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.state import StepState

KEPT_STAGES: tuple[StageFunction, ...] = (
    attention.attn_norm, attention.qkv_proj, attention.rope, attention.write_kv, attention.attn_scores,
    attention.attn_pattern, attention.attn_mix, attention.attn_out, mlp.mlp_norm, mlp.mlp_hidden, mlp.mlp_out,
    output.final_norm,
)  # fmt: skip


def kept(torch_stage: StageFunction) -> StageFunction:
    """The same stage, run in the memory of its step's shape where that is possible."""

    @functools.wraps(torch_stage)
    def run_kept(engine: Engine, state: StepState) -> None:
        step, stage = step_of(engine, state), state.stage
        assert stage is not None
        if step is None or not step.run(engine, state, stage, torch_stage):
            torch_stage(engine, state)

    return run_kept


TWINS = {fn: kept(fn) for fn in KEPT_STAGES}


def graph_program(program: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """The same program with every torch stage that can be kept replaced by its twin; others stay."""
    return tuple(replace(stage, fn=TWINS.get(stage.fn, stage.fn)) for stage in program)


def is_whole(program: tuple[Stage, ...]) -> bool:
    """True if none of those stages is replaced: a fault, an intervention, a padded batch is the readable program's."""
    names, twins = {fn.__name__ for fn in TWINS}, set(TWINS.values())
    return all(stage.fn in twins for stage in program if stage.name in names)


def step_of(engine: Engine, state: StepState) -> GraphStep | None:
    """The step that this state is in, begun at its first layer; None where the readable program computes."""
    from miniinfer.engine.graph.backend import GraphBackend

    stage = state.stage
    assert stage is not None
    if state.plan is None and stage.layer == 0 and stage.name == "attn_norm" and state in engine.open_states:
        assert isinstance(engine.backend, GraphBackend)
        state.plan = engine.backend.begin(engine, state)
    return state.plan if isinstance(state.plan, GraphStep) else None
