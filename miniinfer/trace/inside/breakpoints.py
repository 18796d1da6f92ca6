"""Breakpoints inside a step are values: each looks at the stage that just ran and says in words why to stop there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from miniinfer.errors import BadInputError
from miniinfer.trace.inside.fields import facts_of

if TYPE_CHECKING:
    from miniinfer.trace.inside.inside import StepInside


@dataclass(frozen=True)
class Hit:
    """Where a breakpoint stopped: pc stages have run, the last of them is `stage` of `layer` (None outside layers)."""

    pc: int
    stage: str
    layer: int | None
    why: str


class Breakpoint(Protocol):
    def hit(self, inside: StepInside) -> str | None:
        """Why to stop after the stage that just ran, or None. In the engine's thread."""
        ...


@dataclass(frozen=True)
class NotFinite:
    """A value is NaN or infinite. Minus infinity counts only where nothing was hidden or cut on purpose."""

    def hit(self, inside: StepInside) -> str | None:
        for name, value in inside.written().items():
            facts = facts_of(inside, name, value)
            if facts is not None and facts.num_nan + facts.num_inf:
                return f"{name} holds {facts.num_nan:,} NaN and {facts.num_inf:,} infinite values"
        return None


@dataclass(frozen=True)
class NormJump:
    """The norm of a row is `factor` times that of the layer before, or 1/factor of it; from 0 to anything is a jump.

    name: the tensor, None for any that has a row for each token. row: of the step's rows, None for any.
    """

    factor: float
    name: str | None = "resid_post"
    row: int | None = None

    def __post_init__(self) -> None:
        if not self.factor > 1:
            raise BadInputError(f"The factor of a jump must be above 1, not {self.factor!r}.")

    def hit(self, inside: StepInside) -> str | None:
        at = inside.pc - 1
        stage = inside.program[at]
        before_at = at - sum(s.layer == stage.layer for s in inside.program)
        for name in stage.writes if stage.layer else ():
            if self.name not in (None, name):
                continue
            now, before = inside.norms.get((at, name)), inside.norms.get((before_at, name))
            if now is None or before is None:
                continue
            rows = range(len(now)) if self.row is None else [self.row]
            for row in rows:
                if now[row] == before[row]:
                    continue
                ratio = float(now[row]) / float(before[row]) if before[row] else math.inf
                if not 1 / self.factor < ratio < self.factor:
                    return (
                        f"the norm of {name} at position {inside.rows.start + row} went from {before[row]:.4g} to "
                        f"{now[row]:.4g} (× {ratio:.3g}) from layer {(stage.layer or 0) - 1} to {stage.layer}"
                    )
        return None


@dataclass(frozen=True)
class AtStage:
    """A stage of this name is reached, in one layer or in any (None)."""

    name: str
    layer: int | None = None

    def hit(self, inside: StepInside) -> str | None:
        stage = inside.program[inside.pc - 1]
        here = stage.name == self.name and self.layer in (None, stage.layer)
        return f"{self.name} has run" if here else None


__all__ = ["AtStage", "Breakpoint", "Hit", "NormJump", "NotFinite"]
