"""The program of a step as the map component reads it: plain JSON, no tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

MLP = "mlp_norm"  # where the second half of a layer begins


class StageLike(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def layer(self) -> int | None: ...
    @property
    def sentence(self) -> str: ...


def program_map(
    program: Sequence[StageLike], pc: int, *, step: int, run_id: str, asked: int, marked: int | None
) -> dict[str, Any]:
    """pc: how many stages have run. asked: number of the newest ask that this answers. marked: the place at which a
    breakpoint stopped.

    before: stages ahead of the layers; columns: the stages of one layer; layer_ends: places at which a layer is over.
    """
    first = [stage for stage in program if stage.layer == 0]
    before = next((i for i, stage in enumerate(program) if stage.layer is not None), len(program))
    layers = max((stage.layer for stage in program if stage.layer is not None), default=-1) + 1
    columns = [stage.name for stage in first]
    return {
        "pc": pc, "total": len(program), "step": step, "run": run_id, "n": asked, "marked": marked, "before": before,
        "layers": layers, "columns": columns, "mlp": columns.index(MLP) if MLP in columns else -1,
        "names": [stage.name for stage in program],
        "sentences": {stage.name: stage.sentence for stage in program},
        "layer_ends": [before + (layer + 1) * len(columns) for layer in range(layers)],
    }
