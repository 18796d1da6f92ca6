"""Small things that the tests of faults share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from miniinfer.config import SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.state import StepState
from miniinfer.faults.catalogue import FRANCE
from miniinfer.faults.experiment import make_engine, prompt_of
from miniinfer.faults.fault import Fault, Situation
from miniinfer.trace.lockstep import Lockstep, LockstepRecord
from miniinfer.trace.records import TokenInfo
from miniinfer.trace.text_loss import LossRun

GREEDY = SamplingParams(temperature=0, max_new_tokens=4)
PLAIN = Situation("")


def describe(token_id: int) -> TokenInfo:
    return TokenInfo(token_id, f"<{token_id}>", b"")


def run(engine: Engine, ids: Sequence[int], params: SamplingParams = GREEDY, **request: Any) -> list[StepState]:
    """All steps of one request, which keeps its blocks."""
    engine.add_request(ids, params, **request)
    states = []
    while (state := engine.step()) is not None:
        states.append(state)
    return states


def logits(engine: Engine, ids: Sequence[int], params: SamplingParams = GREEDY) -> list[Tensor]:
    """Raw logits [V] of each output token."""
    return [state.raw_logits[0] for state in run(engine, ids, params) if len(state.raw_logits)]


def both(
    model: Any, fault: Fault | None, ids: Sequence[int], params: SamplingParams = GREEDY, *,
    situation: Situation | None = None, earlier_ids: Sequence[int] = (), tell: Callable[[int], TokenInfo] = describe,
) -> LockstepRecord:
    """The two in lockstep; at the end no block is in use."""
    where = situation or (fault.situation if fault else FRANCE)
    engines = [make_engine(model, where, f, earlier_ids) for f in (None, fault)]
    lockstep = Lockstep(engines[0], engines[1], (ids, prompt_of(fault, ids)), params, tell)
    for _ in lockstep.work():
        pass
    record = lockstep.record()
    lockstep.close()
    for engine in engines:
        engine.check()
        assert engine.pool.num_used == 0
    return record


def loss(
    model: Any, fault: Fault | None, ids: Sequence[int], *, token_by_token: bool = False,
    earlier_ids: Sequence[int] = (),
) -> float:
    """Mean -ln p of the text in the fault's situation."""
    engine = make_engine(model, fault.situation if fault else PLAIN, fault, earlier_ids)
    fed = prompt_of(fault, ids)
    measured = LossRun(engine, fed, token_by_token=token_by_token, skip=len(fed) - len(ids))
    for _ in measured.work():
        pass
    measured.close()
    assert engine.pool.num_used == 0
    return measured.loss().mean


def with_weights(model: Any, change: Callable[[Any], Any]) -> Any:
    """The same tiny model with other layers."""
    weights = dataclasses.replace(model.weights, layers=tuple(change(layer) for layer in model.weights.layers))
    return dataclasses.replace(model, weights=weights)


def largest(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


def bits_equal(a: Sequence[Tensor], b: Sequence[Tensor]) -> bool:
    return len(a) == len(b) and all(map(torch.equal, a, b))
