"""Wrong positions: what RoPE is given, or what it is kept from."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from miniinfer.config import ModelConfig
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.stage import StageFunction
    from miniinfer.engine.state import StepState
    from miniinfer.faults.replace import Wrap

COMMON_BASE, OTHER_BASE = 10_000.0, 500_000.0  # the default of most code; another family's, for models that use it


def wrong_base(config: ModelConfig) -> float:
    """The base that code assumes when it does not read the model's own."""
    return OTHER_BASE if config.rope_base == COMMON_BASE else COMMON_BASE


def base_in_words(config: ModelConfig) -> str:
    return f"This model's own base is {config.rope_base:,.0f}; the fault takes {wrong_base(config):,.0f}."


def other_rope_base(healthy: StageFunction) -> StageFunction:
    def prepare_inputs(engine: Engine, state: StepState) -> None:
        """Lay the tokens side by side as ever, but take the angles of RoPE from the base that most code assumes."""
        from miniinfer.engine.ops import Rope

        healthy(engine, state)
        config = dataclasses.replace(engine.model_config, rope_base=wrong_base(engine.model_config))
        rope = Rope(config, engine.weights.dtype, engine.device)
        state.rope_cos, state.rope_sin = rope.at(state.positions)  # [T, 1, D] each

    return prepare_inputs


def half_precision_positions(healthy: StageFunction) -> StageFunction:
    def prepare_inputs(engine: Engine, state: StepState) -> None:
        """Hold the positions in bfloat16: exact up to 256, every other one up to 512, every 32nd up to 8,192."""
        healthy(engine, state)
        state.rope_cos, state.rope_sin = engine.rope.at(state.positions.bfloat16())  # [T, 1, D] each

    return prepare_inputs


def keys_without_rope(healthy: StageFunction) -> StageFunction:
    def rope(engine: Engine, state: StepState) -> None:
        """Turn the queries only: the keys go into the cache as they are, and nobody turns them later."""
        keys = state.k  # [T, K, D]
        healthy(engine, state)
        state.k = keys

    return rope


def later_positions(offset: int) -> Wrap:
    """A setup, not a fault: the sequence begins at position `offset`. RoPE sees distances only, so a healthy model
    answers the same up to rounding, and a long context is there without the time to compute it."""

    def wrap(healthy: StageFunction) -> StageFunction:
        def prepare_inputs(engine: Engine, state: StepState) -> None:
            healthy(engine, state)
            state.positions = state.positions + offset
            state.rope_cos, state.rope_sin = engine.rope.at(state.positions)  # [T, 1, D] each

        return prepare_inputs

    return wrap
