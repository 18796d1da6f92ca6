"""Every named tensor of one step, kept for a comparison or a debugger: an observer with a byte budget of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from miniinfer.trace.records import FloatArray

if TYPE_CHECKING:
    from miniinfer.engine.stage import Stage
    from miniinfer.engine.state import StepState


@dataclass(frozen=True)
class StageTensor:
    """What one stage wrote: the stage, its layer (None outside the layers), the field's name and its values."""

    stage: str
    layer: int | None
    name: str
    values: FloatArray


class StageCapture:
    """Observer: `tensors` in the order in which stages wrote them; `dropped` names what did not fit the budget."""

    def __init__(self, limit_bytes: int = 128 * 2**20) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.tensors: list[StageTensor] = []
        self.dropped: list[str] = []

    def __call__(self, stage: Stage, state: StepState) -> None:
        import torch

        for name in stage.writes:
            value = getattr(state, name, None)
            parts = value if isinstance(value, tuple | list) else (value,)
            for index, part in enumerate(parts):
                if not isinstance(part, torch.Tensor):
                    continue
                label = name if len(parts) == 1 else f"{name}[{index}]"
                if self.used_bytes + part.numel() * 4 > self.limit_bytes:
                    self.dropped.append(f"{stage.name} {stage.layer} {label}")
                    continue
                array = np.array(part.float().cpu().numpy(), np.float32)
                array.setflags(write=False)
                self.used_bytes += array.nbytes
                self.tensors.append(StageTensor(stage.name, stage.layer, label, array))
