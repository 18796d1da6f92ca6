"""One prefill, and what its last row holds: the logits, and the attention of single heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from miniinfer.config import SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.lookup import pattern_row
from miniinfer.engine.stage import Stage
from miniinfer.engine.state import StepState
from miniinfer.errors import BadInputError
from miniinfer.models.loader import LoadedModel


@dataclass
class LastRow:
    """logits [V] float32; attention: "L.H" -> weights [C] over all positions, which add up to 1."""

    logits: Tensor
    attention: dict[str, Tensor] = field(default_factory=dict)

    @property
    def logsumexp(self) -> float:
        return float(torch.logsumexp(self.logits.double(), 0))

    def top(self, count: int) -> list[tuple[int, float]]:
        """The best (id, logit), of equal ones the lowest id first; all of them if `count` is above V."""
        values, ids = torch.sort(self.logits, descending=True, stable=True)
        return list(zip(ids[:count].tolist(), values[:count].tolist(), strict=True))


def last_row(model: LoadedModel, ids: Sequence[int], heads: Sequence[tuple[int, int]]) -> LastRow:
    """Run the prompt `ids` and keep what its last row holds for the (layer, head) pairs. Raises BadInputError."""
    config = model.config
    for layer, head in heads:
        if layer >= config.num_layers or head >= config.num_heads:
            raise BadInputError(
                f"There is no head {layer}.{head}; layers go from 0 to {config.num_layers - 1} and heads from 0 to "
                f"{config.num_heads - 1}."
            )
    row = LastRow(torch.empty(0))

    def watch(stage: Stage, state: StepState) -> None:
        # Every chunk of a long prompt writes these anew, and the last one holds the last row.
        if stage.name == "attn_pattern":
            for layer, head in heads:
                if layer == stage.layer:
                    row.attention[f"{layer}.{head}"] = pattern_row(state, 0)[head].float().cpu()
        elif stage.name == "unembed" and state.sample_rows:
            row.logits = state.raw_logits[0]

    engine = Engine(model)
    sequence = engine.add_request(ids, SamplingParams(temperature=0, max_new_tokens=1))
    while not sequence.finished:
        engine.step(watch)
    row.attention = {f"{layer}.{head}": row.attention[f"{layer}.{head}"] for layer, head in heads}
    return row
