"""What every stage of a step wrote for one position: for a watched tensor, the residual stream, the logit lens.

Kept are the rows of one position only, about 2 MB for the default model at 500 tokens; norms are kept for all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from miniinfer.trace.capture import StageTensor
from miniinfer.trace.inside.fields import row_norms
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.parts import Parts
from miniinfer.trace.records import FloatArray
from miniinfer.trace.replay import StepRows, replay

if TYPE_CHECKING:
    from miniinfer.engine.stage import Stage
    from miniinfer.engine.state import StepState


@dataclass(frozen=True)
class StageRows:
    """tensors: in the order of the program, the row of `position` alone; of attention [H, C], C = position + 1.
    norms: field -> [L, T], the L2 norm of each row after the layer's last stage that wrote it. start: of row 0.
    """

    step: int
    position: int
    start: int
    tensors: tuple[StageTensor, ...]
    norms: dict[str, FloatArray]

    @property
    def names(self) -> list[str]:
        """Of what every layer writes, in the order of the program."""
        return list(dict.fromkeys(t.name for t in self.tensors if t.layer is not None))

    def over_layers(self, name: str) -> list[StageTensor]:
        """What was written last under this name in each layer."""
        found = {t.layer: t for t in self.tensors if t.name == name and t.layer is not None}
        return [found[layer] for layer in sorted(found) if layer is not None]


class RowCapture:
    """Observer: the row of one position of every tensor with a row for it, and the norms of all rows."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.tensors: list[StageTensor] = []
        self._norms: dict[str, dict[int, FloatArray]] = {}

    def __call__(self, stage: Stage, state: StepState) -> None:
        if not state.scheduled:
            return
        row = self.position - state.scheduled[0].start
        for name in stage.writes:
            array = _row_of(stage, state, name, row, self.position)
            if array is not None:
                array.setflags(write=False)
                self.tensors.append(StageTensor(stage.name, stage.layer, name, array))
        if stage.layer is not None:
            for name, norms in row_norms(stage, state):
                self._norms.setdefault(name, {})[stage.layer] = norms

    @property
    def norms(self) -> dict[str, FloatArray]:
        return {name: np.stack([by[layer] for layer in sorted(by)]) for name, by in self._norms.items()}


def _row_of(stage: Stage, state: StepState, name: str, row: int, position: int) -> FloatArray | None:
    """Of a float tensor, in float32; None if it has no row for the position."""
    letters = stage.shapes.get(name, "").split()
    value: Any = getattr(state, name, None)
    if letters[:1] == ["T"] and len(letters) > 1 and letters[1] != "1":
        part = value[row]
    elif "Tq" in letters:
        part = value[0][:, 0].flatten(0, 1)[:, row, : position + 1]  # [H, C]
    elif letters == ["R", "V"] and row in state.sample_rows:
        part = value[state.sample_rows.index(row)]
    else:
        return None
    return np.array(part.float().cpu().numpy(), np.float32)


def read_stage_rows(run: LiveRun, rows: StepRows, position: int) -> Parts[StageRows]:
    """Replay the step and keep the rows of `position`. Raises MiniInferError. In the engine's thread."""
    capture = RowCapture(position)
    yield from replay(run, rows, capture)
    return StageRows(rows.step, position, rows.start, tuple(capture.tensors), capture.norms)


def embedding_row(tensors: Sequence[StageTensor]) -> FloatArray:
    """[E] the residual stream before layer 0."""
    return next(t.values for t in tensors if t.name == "resid_pre")
