"""One step of one sequence under the eyes of a recorder, in parts between which other sequences take their turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from miniinfer.trace.parts import Parts

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.sequence import Sequence
    from miniinfer.engine.state import StepState
    from miniinfer.trace.recorder import Recorder

SHORT_STEP = 8  # tokens: a step of so many takes no longer than one layer of a long prompt


def recorded_step(engine: Engine, seq: Sequence, recorder: Recorder) -> Parts[StepState | None]:
    """The committed step, None if there is nothing to do; `recorder.record` then gives what it saw.

    A step of many tokens stops before each layer; what its parts compute is what one go computes. Given up in between,
    nothing has happened.
    """
    recorder.start()
    state = engine.begin_step(only=seq)
    if state is None:
        return None
    engine.advance(state, until=1, observer=recorder)  # `schedule`, which says how many tokens they are
    if sum(part.num_tokens for part in state.scheduled) > SHORT_STEP:
        program = engine.program
        for stop in (index for index, stage in enumerate(program) if stage.name == "attn_norm"):
            engine.advance(state, until=stop, observer=recorder)
            try:
                yield stop / len(program)
            except GeneratorExit:
                engine.abandon(state)
                raise
            recorder.resume()
    return engine.advance(state, observer=recorder)
