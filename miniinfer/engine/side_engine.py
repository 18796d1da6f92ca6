"""An engine beside an engine: the same weights, pool and KV cache, its own stages and its own queues.

A what-if forks a sequence over to it, runs there and is released. The engine itself never sees it: neither its queues,
sequences and copy-on-writes nor its prefix cache, and of the KV cache only blocks that were free.
"""

from __future__ import annotations

import copy
import dataclasses

from miniinfer.engine.engine import Engine
from miniinfer.engine.stage import Stage


def side_engine(engine: Engine, program: tuple[Stage, ...]) -> Engine:
    """It knows the engine's sequences, so that they can be forked, and owns none. Release what it makes; use it within
    the engine's thread only."""
    side = copy.copy(engine)
    side.program = program
    # What it computes may be wrong on purpose: nobody may find its blocks by their text.
    side.config = dataclasses.replace(engine.config, prefix_caching=False)
    side.scheduler = type(engine.scheduler)(side.config, engine.pool, engine.context_length)
    side.sequences = dict(engine.sequences)
    side.block_copies = []
    side.open_states = []
    return side
