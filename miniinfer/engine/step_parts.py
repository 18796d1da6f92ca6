"""A step in parts, between which others take their turns in the engine's thread."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.stage import Observer
    from miniinfer.engine.state import StepState

SHORT_STEP = 8  # tokens: a step of so many takes no longer than one layer of a long prompt


def advanced_in_parts(
    engine: Engine, state: StepState, observer: Observer | None = None, resumed: Callable[[], object] | None = None
) -> Generator[float, None, StepState]:
    """Take a step that was just begun to its end; it is committed then. Yields the share that is done, 0 to 1.

    A step of many tokens stops before each layer; what its parts compute is what one go computes. Given up in between,
    nothing has happened. resumed: called each time that it goes on.
    """
    engine.advance(state, until=1, observer=observer)  # `schedule`, which says how many tokens they are
    if sum(part.num_tokens for part in state.scheduled) > SHORT_STEP:
        program = engine.program
        for stop in (index for index, stage in enumerate(program) if stage.name == "attn_norm"):
            engine.advance(state, until=stop, observer=observer)
            try:
                yield stop / len(program)
            except GeneratorExit:
                engine.abandon(state)
                raise
            if resumed is not None:
                resumed()
    return engine.advance(state, observer=observer)
