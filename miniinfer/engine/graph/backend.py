"""The backend "graph": the torch program, its decode steps in memory that is used again. On CUDA with captured graphs.

What cannot be done so (prompts, groups of unlike length, replaced stages, a step that was changed in the middle) the
readable program computes, by the same stages; `sentence` says how often, and why.
"""

from __future__ import annotations

import logging
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from miniinfer.engine.backend import TorchBackend
from miniinfer.engine.graph.capture import Keep, keep_on
from miniinfer.engine.graph.memory import StepMemory, table_size
from miniinfer.engine.graph.stages import graph_program, is_whole
from miniinfer.engine.graph.step import GraphStep
from miniinfer.engine.kv_cache import KVCache
from miniinfer.engine.stage import Stage

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.state import StepState

log = logging.getLogger(__name__)

MOST_ROWS = 8  # sequences of one step: each number of them is a shape of its own
MOST_SHAPES = 4  # kept for each KV cache, the newest ones
REPLACED = "a stage is replaced"
UNLIKE = "its sequences are cut into groups of like length"
TOO_MANY = f"it has more than {MOST_ROWS} sequences"
IN_USE = "another step stands still in its memory"


class GraphBackend(TorchBackend):
    """Torch with a program of its own. Shared by all engines of a process; used in the engine's thread.

    keep_on: what keeps the stages of a step on a device. steps: decode steps by why they were torch's, "" for those
    that ran in kept memory from the first layer to the last. failure: why nothing is captured any more, in a sentence.
    """

    name = "graph"

    def __init__(self, keep_on: Callable[[torch.device], Keep] = keep_on) -> None:
        self._keep_on = keep_on
        self._memories: weakref.WeakKeyDictionary[KVCache, OrderedDict[tuple[int, int], StepMemory]] = (
            weakref.WeakKeyDictionary()
        )
        self.steps: Counter[str] = Counter()
        self.failure: str | None = None
        self._asked: tuple[tuple[Stage, ...], bool] = ((), False)  # the newest program, and whether it is whole

    def program(self, program: tuple[Stage, ...]) -> tuple[Stage, ...]:
        return graph_program(program)

    def begin(self, engine: Engine, state: StepState) -> GraphStep | None:
        """The step in its memory, before its first layer. None if the readable program has to compute it."""
        if self.failure is not None or any(group.num_rows > 1 for group in state.groups):
            return None  # what failed is said once, and prompts are always torch's
        rows = len(state.resid_pre)
        memory = why = None
        if not self._is_whole(engine.program):
            why = REPLACED
        elif len(state.groups) != 1 or state.groups[0].num_seqs != rows:
            why = UNLIKE
        elif rows > MOST_ROWS:
            why = TOO_MANY
        else:
            memory = self._memory(engine, rows, state.groups[0].context_len)
            why = IN_USE if memory.in_use else None
        if memory is None or why is not None:
            self.note(why)
            return None
        return GraphStep(engine, state, self, memory)

    def _is_whole(self, program: tuple[Stage, ...]) -> bool:
        if self._asked[0] is not program:
            self._asked = program, is_whole(program)
        return self._asked[1]

    def _memory(self, engine: Engine, rows: int, context_len: int) -> StepMemory:
        blocks = table_size(context_len, engine.config.block_size, engine.context_length)
        known = self._memories.setdefault(engine.kv_cache, OrderedDict())
        for shape, memory in list(known.items()):
            if not memory.fits(engine):
                del known[shape]
        memory = known.get((rows, blocks)) or StepMemory(engine, rows, blocks, self._keep_on(engine.device))
        known[rows, blocks] = memory
        known.move_to_end((rows, blocks))
        if len(known) > MOST_SHAPES:
            known.popitem(last=False)
        return memory

    def memories(self, engine: Engine) -> tuple[StepMemory, ...]:
        """What is kept for this engine's KV cache, the one used last at the end."""
        return tuple(self._memories.get(engine.kv_cache, {}).values())

    def note(self, why: str | None) -> None:
        """Count a decode step: None if it ran in kept memory to its end."""
        self.steps[why or ""] += 1

    def fail(self, sentence: str) -> None:
        """Capture nothing any more."""
        self.failure = sentence
        self._memories.clear()
        log.warning("%s", sentence)

    @property
    def sentence(self) -> str:
        """How it stands with the kept steps."""
        if self.failure is not None:
            return self.failure
        others = ", ".join(f"{count:,} because {why}" for why, count in self.steps.most_common() if why)
        said = f"Decode steps in reused memory: {self.steps['']:,}"
        return f"{said}. By the readable program: {others}." if others else f"{said}."


GRAPH = GraphBackend()
