"""One decode step in the memory of its shape: which of its stages may run there, and what it binds."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from miniinfer.engine.graph.capture import CaptureError
from miniinfer.engine.graph.memory import KEPT_FIELDS, StepMemory
from miniinfer.engine.placement import place_tokens

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.graph.backend import GraphBackend
    from miniinfer.engine.stage import Stage, StageFunction
    from miniinfer.engine.state import StepState

CHECKED = KEPT_FIELDS | {"rope_cos", "rope_sin", "groups", "block_tables"}
CUT = ("attn_scores", "attn_pattern")  # wider in the memory than the context is

MOVED = "the KV cache moved in the middle of it"
CHANGED = "something of it was changed from outside"
AGAIN = "some of it was run again"


class GraphStep:
    """A state's `plan`. From the first thing that does not fit on, the readable program goes on with what stands in the
    state. A copy of the state (a fork in the middle of a step) is the readable program's too."""

    def __init__(self, engine: Engine, state: StepState, backend: GraphBackend, memory: StepMemory) -> None:
        self._engine = weakref.ref(engine)
        self._backend, self._memory = backend, memory
        self._owner, self._done = id(state), 0
        self._over = False
        self._context_len = state.groups[0].context_len
        self._bound: dict[str, object] = {
            name: getattr(state, name) for name in ("resid_pre", "rope_cos", "rope_sin", "groups")
        }  # by field: what this memory holds the numbers of
        memory.lend(self)
        memory.load_inputs(state)

    @property
    def is_open(self) -> bool:
        """True while its state or a copy of it is neither committed nor abandoned."""
        engine = self._engine()
        return engine is not None and any(state.plan is self for state in engine.open_states)

    def run(self, engine: Engine, state: StepState, stage: Stage, fn: StageFunction) -> bool:
        """Run this stage in the memory and bind its fields. False: nothing was done."""
        if self._owner != id(state) or self._over:
            return False
        why = self._misfit(state, stage)
        if why is None and stage.name == "write_kv":
            place_tokens(engine, state)
            why = self._place(engine, state)
        if why is None:
            try:
                fields = self._memory.run(stage, fn)
            except CaptureError as error:
                self._backend.fail(str(error))
                why = str(error)
        if why is not None:
            self._over = True
            self._backend.note(why)
            return False
        self._done = state.pc + 1
        for name, value in fields.items():
            bound = (value[0][..., : self._context_len],) if name in CUT else value
            setattr(state, name, bound)
            self._bound[name] = bound
        if stage.name == "final_norm":
            self._backend.note(None)
        return True

    def _misfit(self, state: StepState, stage: Stage) -> str | None:
        """Why this stage cannot run in the memory."""
        if state.pc < self._done:
            return AGAIN
        same = all(getattr(state, name) is self._bound.get(name) for name in stage.reads if name in CHECKED)
        return None if same else CHANGED

    def _place(self, engine: Engine, state: StepState) -> str | None:
        """Follow the slots and the tables, which a fork in between may have changed.

        A cache that moves after this write is read where it was until the next one: it still holds what was written.
        """
        if not self._memory.fits(engine):
            return MOVED
        if state.block_tables is not self._bound.get("block_tables"):
            self._memory.load_places(engine, state)
            self._bound["block_tables"] = state.block_tables
        return None
