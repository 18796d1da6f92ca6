"""An engine beside an engine: the same weights, pool and KV cache, its own stages and its own queues.

A what-if forks a sequence over to it, runs there and is released. The engine itself never sees it: neither its queues
nor its sequences, and of the cache only blocks that were free.
"""

from __future__ import annotations

import copy

from miniinfer.engine.engine import Engine
from miniinfer.engine.scheduler import Scheduler
from miniinfer.engine.stage import Stage


def side_engine(engine: Engine, program: tuple[Stage, ...]) -> Engine:
    """It knows the engine's sequences, so that they can be forked, and owns none. Release what it makes; use it within
    the engine's thread only."""
    side = copy.copy(engine)
    side.program = program
    side.scheduler = Scheduler(engine.config, engine.pool)
    side.sequences = dict(engine.sequences)
    side._open_states = []
    return side
