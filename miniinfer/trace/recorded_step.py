"""One step of one sequence under the eyes of a recorder, in parts between which other sequences take their turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from miniinfer.trace.parts import Parts

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.sequence import Sequence
    from miniinfer.engine.state import StepState
    from miniinfer.trace.recorder import Recorder


def recorded_step(engine: Engine, seq: Sequence, recorder: Recorder) -> Parts[StepState | None]:
    """The committed step, None if there is nothing to do; `recorder.record` then gives what it saw."""
    from miniinfer.engine.step_parts import advanced_in_parts

    recorder.start()
    state = engine.begin_step(only=seq)
    return None if state is None else (yield from advanced_in_parts(engine, state, recorder, recorder.resume))
