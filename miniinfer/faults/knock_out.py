"""Heads and layers scaled, down to nothing: what the model would have said without them.

A knock-out is a replaced stage, never an `if` inside the maths: what a head mixed is scaled after `attn_mix`, what an
MLP computed after `mlp_hidden`. Both are followed by a product without an offset, so the same factor reaches what is
added to the residual stream.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from miniinfer.config import ModelConfig, SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.sequence import Sequence as TokenSequence
from miniinfer.engine.side_engine import side_engine
from miniinfer.engine.stage import Stage, StageFunction
from miniinfer.engine.state import StepState
from miniinfer.errors import BadInputError, MiniInferError
from miniinfer.faults.replace import replace_stage

CHUNK = 256  # prompt rows of one step of a what-if
GREEDY = SamplingParams(temperature=0, max_new_tokens=2**31 - 1)  # what it samples is thrown away


@dataclasses.dataclass(frozen=True)
class Scaling:
    """In `layer`, multiply what these query heads mixed (heads), or what the MLP computed (mlp), by `factor`."""

    layer: int
    factor: float = 0.0
    heads: tuple[int, ...] = ()
    mlp: bool = False


def scaled_program(engine: Engine, scalings: Iterable[Scaling]) -> tuple[Stage, ...]:
    """The engine's program with these scalings; factors for the same head multiply. Raises BadInputError."""
    model = engine.model_config
    heads: defaultdict[int, list[float]] = defaultdict(lambda: [1.0] * model.num_heads)
    mlps: defaultdict[int, float] = defaultdict(lambda: 1.0)
    for scaling in scalings:
        _check(scaling, model)
        for head in scaling.heads:
            heads[scaling.layer][head] *= scaling.factor
        if scaling.mlp:
            mlps[scaling.layer] *= scaling.factor
    program = engine.program
    for layer, factors in heads.items():
        program = scale_heads(program, layer, torch.tensor(factors))
    for layer, factor in mlps.items():
        program = _wrap(program, layer, "mlp_hidden", {"mlp_hidden": torch.tensor(factor)})
    return program


def scale_heads(program: tuple[Stage, ...], layer: int, factors: Tensor) -> tuple[Stage, ...]:
    """factors: [H], or [T, H] to treat each row of the step in its own way."""
    return _wrap(program, layer, "attn_mix", {"z": factors[..., None]})


def _wrap(program: tuple[Stage, ...], layer: int, name: str, factors: Mapping[str, Tensor]) -> tuple[Stage, ...]:
    healthy: StageFunction = next(s.fn for s in program if s.layer == layer and s.name == name)

    def scaled(engine: Engine, state: StepState) -> None:
        """What the healthy stage computed, times the factors of this what-if."""
        healthy(engine, state)
        for field, factor in factors.items():
            value = getattr(state, field)
            setattr(state, field, value * factor.to(value.device, value.dtype))

    return replace_stage(program, name, scaled, layers=[layer])


class WhatIf:
    """The next-token logits after one position of a sequence, with some parts scaled. The sequence is never touched.

    everywhere: the parts are scaled at every position up to this one, so all of it is computed anew; else only at this
    position, whose row reads the keys and values that the healthy run cached before it.
    Make it, call `step` until it says False, read `logits`, and `release` in any case, all in the engine's thread.
    """

    def __init__(
        self, engine: Engine, seq: TokenSequence, position: int, scalings: Sequence[Scaling], *, everywhere: bool
    ) -> None:
        if not 0 <= position < seq.num_computed_tokens:
            raise BadInputError(f"Position {position} is not in the cache yet.")
        self.logits: Tensor | None = None
        self._side = side_engine(engine, scaled_program(engine, scalings))
        if everywhere:
            self._seq = self._side.add_request(seq.token_ids[: position + 1], GREEDY, prefill_chunk=CHUNK)
        else:
            self._seq = self._side.fork(seq, position + 1, params=GREEDY)

    def step(self) -> bool:
        """One step of the engine; False once the logits [V] are there. Raises MiniInferError if they are not finite."""
        state = self._side.step(only=self._seq)
        assert state is not None
        if state.errors:
            raise MiniInferError("With this scaling the model's numbers overflow: choose a factor nearer to 1.")
        if state.sample_rows:
            self.logits = state.raw_logits[0]
        return self.logits is None

    def release(self) -> None:
        self._side.release(self._seq)


def each_head_off(engine: Engine, seq: TokenSequence, position: int, layer: int) -> Tensor:
    """[H, V]: the logits after `position` with one head of the layer off at a time, at this position only.

    All heads of the layer share steps, one row each, so they equal `WhatIf`'s within rounding.
    """
    num_heads = engine.model_config.num_heads
    at_once = engine.config.max_num_seqs
    found = []
    for low in range(0, num_heads, at_once):
        heads = range(low, min(low + at_once, num_heads))
        factors = torch.ones(len(heads), num_heads)
        factors[torch.arange(len(heads)), torch.tensor(heads)] = 0
        side = side_engine(engine, scale_heads(engine.program, layer, factors))
        branches = []
        try:
            for _ in heads:
                branches.append(side.fork(seq, position + 1, params=GREEDY))
            state = side.step()
            assert state is not None
            if len(state.sample_rows) < len(heads):
                raise MiniInferError("The KV cache has no room for a what-if of all heads: release a run first.")
            found.append(state.raw_logits)
        finally:
            for branch in branches:
                side.release(branch)
    return torch.cat(found)


def _check(scaling: Scaling, model: ModelConfig) -> None:
    if not 0 <= scaling.layer < model.num_layers:
        raise BadInputError(f"This model has layers 0 to {model.num_layers - 1}, not {scaling.layer}.")
    if any(not 0 <= head < model.num_heads for head in scaling.heads):
        raise BadInputError(f"This model has heads 0 to {model.num_heads - 1}; one of {scaling.heads} is not there.")
    if not 0 <= scaling.factor <= 4:
        raise BadInputError(f"A factor must be from 0 (off) to 4, not {scaling.factor!r}.")
