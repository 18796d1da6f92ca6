"""The one loop that runs stages. Stepping through and running at full speed are the same thing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from miniinfer.engine.stage import Observer, Stage

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.state import StepState


def run_stages(
    program: Sequence[Stage], engine: Engine, state: StepState, until: int, observer: Observer | None
) -> None:
    """Run stages, from the one at state.pc up to but without the one at index `until`, showing each to the observer."""
    with engine.backend.threads(engine.scheduler.most_rows(state.only)):
        while state.pc < until:
            stage = program[state.pc]
            state.stage = stage
            stage.fn(engine, state)
            state.pc += 1
            if observer is not None:
                observer(stage, state)
