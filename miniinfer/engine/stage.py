"""What a stage is: a small function that reads some fields of the state and writes others, and what to say about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.state import StepState

StageFunction = Callable[["Engine", "StepState"], None]


@dataclass(frozen=True)
class Stage:
    """One entry of the program. `inspect.getsource(stage.fn)` is its real source."""

    name: str
    fn: StageFunction
    reads: tuple[str, ...]  # fields of StepState
    writes: tuple[str, ...]  # fields of StepState; "kv_cache" stands for the pool, written in place
    shapes: Mapping[str, str]  # of the tensors among them, in the letters of config: {"q": "T H D"}
    formula: str  # what the sentence says, as one line of mathematics, in LaTeX
    layer: int | None = None
    processor: int | None = None  # which entry of each sequence's params.order this stage applies

    @property
    def sentence(self) -> str:
        """What the stage does, in one sentence: the first paragraph of its function's docstring."""
        paragraph = (self.fn.__doc__ or "").strip().split("\n\n")[0]
        return " ".join(paragraph.split())


Observer = Callable[[Stage, "StepState"], None]
