"""A step of a live run, parked between two stages: go forth and back in it, and look at what the last stage did.

It lives on a throwaway fork (see replay) until `close`. Going forth runs the program's own stages; going back puts the
state's fields back to the beginning of a layer, which is sound because stages rebind fields and the cache is only
written by `write_kv`, which writes the same again. All methods touch tensors, so they are called in the engine's
thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from miniinfer.errors import BadInputError
from miniinfer.trace.inside.breakpoints import Breakpoint, Hit
from miniinfer.trace.inside.fields import described, field_values, row_norms
from miniinfer.trace.inside.records import StageLook, TensorView
from miniinfer.trace.inside.source_lines import LineTrace
from miniinfer.trace.inside.views import tensor_view
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.records import FloatArray
from miniinfer.trace.replay import fork_for, rows_of

if TYPE_CHECKING:
    from miniinfer.engine.stage import Stage
    from miniinfer.engine.state import StepState

KEPT_BYTES = 64 * 2**20  # for the residual streams that going back starts from
NOT_KEPT = (  # of a layer that is over: nothing after it reads them
    "attn_norm_out", "q", "k", "v", "attn_scores", "attn_pattern", "z", "attn_out", "resid_mid", "mlp_norm_out",
    "mlp_hidden", "mlp_out",
)  # fmt: skip


class StepInside:
    """pc stages have run; `look` and `view` are about the last of them."""

    def __init__(self, run: LiveRun, step: int) -> None:
        """Raises BadInputError if the run has no such step, OutOfBlocksError if there is no room for the fork."""
        self.run = run
        self.rows = rows_of(run, step)
        self.engine = run.engine
        self.program: tuple[Stage, ...] = run.engine.program
        self.norms: dict[tuple[int, str], FloatArray] = {}  # (index of the stage, field) -> L2 norm of each row [T]
        self.lines = LineTrace()
        self.closed = False
        self._saved: dict[int, dict[str, Any]] = {}  # pc -> fields of the state there
        self._reads: dict[str, Any] = {}
        self._twin = fork_for(run, self.rows)
        self._state = self._begin()
        per_layer = self.rows.count * run.info.model.hidden_size * run.engine.weights.dtype.itemsize
        self._save_every = max(1, -(-per_layer * run.info.model.num_layers // KEPT_BYTES))  # layers

    @property
    def pc(self) -> int:
        return self._state.pc

    def goto(self, pc: int) -> None:
        """Run to where `pc` stages have run, forth or back. Raises BadInputError for a place outside the program."""
        if not 0 <= pc <= len(self.program):
            raise BadInputError(f"A step has {len(self.program)} stages; there is no place {pc} among them.")
        self._check_open()
        if pc < self.pc or (pc == self.pc and pc and not self._reads):
            self._back_before(pc)
        while self.pc < pc - 1:
            stop = min([saved for saved in self._layer_starts() if saved > self.pc] + [pc - 1])
            self._advance(stop)
        if self.pc < pc:
            self._one()

    def run_on(self, breakpoints: Iterable[Breakpoint]) -> Hit | None:
        """Run stage by stage until a breakpoint says stop, or to the end: None."""
        self._check_open()
        breakpoints = tuple(breakpoints)
        while self.pc < len(self.program):
            self._one()
            for breakpoint in breakpoints:
                if (why := breakpoint.hit(self)) is not None:
                    stage = self.program[self.pc - 1]
                    return Hit(self.pc, stage.name, stage.layer, why)
        return None

    def look(self) -> StageLook | None:
        """What the last stage read and wrote; None before the first one."""
        if self.pc == 0:
            return None
        stage = self.program[self.pc - 1]
        return described(self, stage, self._reads, self.written())

    def view(self, role: str, name: str, head: int | None, row: int | None) -> TensorView:
        """Values of one field that the last stage read ("reads") or wrote ("writes"), copied to numpy.

        head: one head of a tensor that has heads, None for all. row: of the step's rows one alone, None for all.
        Raises BadInputError if the stage has no such tensor.
        """
        values = self._reads if role == "reads" else self.written()
        if name not in values:
            raise BadInputError(f"The stage that just ran {role} nothing called {name!r}: choose another tensor.")
        return tensor_view(self, name, values[name], head, row)

    def written(self) -> dict[str, Any]:
        """Field -> value of all that the last stage wrote, the cache's keys and values among them."""
        return field_values(self, self.program[self.pc - 1].writes)

    @property
    def state(self) -> StepState:
        return self._state

    def close(self) -> None:
        """Give back the fork and all that it holds. Closing again does nothing."""
        if not self.closed:
            self.closed = True
            self._drop()
            self._saved.clear()
            self._reads = {}

    # How

    def _begin(self) -> StepState:
        state = self.engine.begin_step(only=self._twin)
        assert state is not None  # the fork is unfinished
        return state

    def _drop(self) -> None:
        if self.pc < len(self.program):
            self.engine.abandon(self._state)
        self.engine.release(self._twin)

    def _check_open(self) -> None:
        if self.closed:
            raise BadInputError("This look into the step is over: open the step again.")

    def _back_before(self, pc: int) -> None:
        """To some place before `pc`, so that the stage looked at runs again: the latest one that was kept."""
        kept = [saved for saved in self._saved if saved < pc]
        if kept and self.pc < len(self.program):
            for name, value in self._saved[max(kept)].items():
                setattr(self._state, name, value)
        else:
            self._drop()
            self._twin = fork_for(self.run, self.rows)
            self._state = self._begin()
            self._saved.clear()
        self._reads = {}

    def _layer_starts(self) -> list[int]:
        return [i for i, stage in enumerate(self.program) if stage.name == "attn_norm"]

    def _one(self) -> None:
        stage = self.program[self.pc]
        self._reads = {**field_values(self, (n for n in stage.reads if n != "kv_cache")), **self._cache_read(stage)}
        with self.lines.watching(stage.fn):
            self._advance(self.pc + 1)

    def _cache_read(self, stage: Stage) -> dict[str, Any]:
        return field_values(self, ("kv_cache",), stage) if "kv_cache" in stage.reads else {}

    def _advance(self, until: int) -> None:
        stage = self.program[self.pc]
        if stage.name == "attn_norm" and (stage.layer or 0) % self._save_every == 0:
            over = {*NOT_KEPT, *({"resid_pre"} - set(stage.reads))}  # layer 0 begins with what `embed` wrote
            self._saved[self.pc] = {k: v for k, v in vars(self._state).items() if k not in over}
        try:
            self.engine.advance(self._state, until=until, observer=self._note)
        except BaseException:  # the engine has abandoned the step: begin it anew, at its first stage
            self.engine.release(self._twin)
            self._twin = fork_for(self.run, self.rows)
            self._state, self._reads = self._begin(), {}
            self._saved.clear()
            raise

    def _note(self, stage: Stage, state: StepState) -> None:
        for name, norms in row_norms(stage, state):
            self.norms[(state.pc - 1, name)] = np.array(norms)
