"""The same greedy tokens with and without the KV cache. Without it every step computes all positions anew.

Both ways are computed by torch, whatever the model would choose: the compiled core computes one row a sequence, so that
without the cache it would hand over to torch, and the two ways would differ by more than the cache.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from miniinfer.engine.backend import TORCH
from miniinfer.engine.clock import DeviceClock
from miniinfer.engine.engine import Engine
from miniinfer.engine.sequence import Sequence as EngineSequence
from miniinfer.engine.state import StepState
from miniinfer.engine.weights import ModelLike
from miniinfer.errors import MiniInferError
from miniinfer.measure.progress import Measurement, Progress, part
from miniinfer.measure.records import CacheOff, OnOff, Stats
from miniinfer.measure.workload import (
    GREEDY,
    check_lengths,
    endless_params,
    own_engine,
    rounds_of,
    sequences_at,
    stretched,
)

LENGTHS = (8, 16, 32, 64, 128, 256, 512)
TOKENS = 16
# By which part of the largest logit the two ways may differ: they add the same numbers in another order. Measured on
# SmolLM2: 4e-6 in float32, 0.02 in bfloat16, 0.013 in packed (whose products round to bfloat16).
ROUNDING = {"float32": 1e-3, "bfloat16": 0.1, "packed": 0.1}


@dataclass
class _Answer:
    """What one step said: logits [V] of the newest row in float32, computed in `precision`, and the best token."""

    precision: str
    logits: Tensor
    token_id: int

    @classmethod
    def of(cls, engine: Engine, state: StepState | None) -> _Answer:
        assert state is not None
        return cls(engine.weights.precision, state.raw_logits[-1].clone(), state.token_ids[-1])

    @property
    def margin(self) -> float:
        best = self.logits.topk(2).values
        return float(best[0] - best[1])


class _Ways:
    """Both ways to get a next token, each in an engine of its own."""

    def __init__(self, model: ModelLike, longest: int) -> None:
        self.with_cache = own_engine(model, backend=TORCH)
        self.without = own_engine(model, one_pass=longest, backend=TORCH)
        self.clock = DeviceClock(self.with_cache.device)

    def on(self, seq: EngineSequence) -> tuple[float, _Answer]:
        """One more step of a sequence whose earlier positions are in the cache."""
        return self._timed(self.with_cache, seq)

    def off(self, ids: Sequence[int]) -> tuple[float, _Answer]:
        """The same step with nothing kept: all these positions go through the model."""
        seq = self.without.add_request(ids, GREEDY)
        found = self._timed(self.without, seq)
        self.without.release(seq)
        return found

    def _timed(self, engine: Engine, seq: EngineSequence) -> tuple[float, _Answer]:
        states: list[StepState | None] = []
        taken = self.clock.time(lambda: states.append(engine.step(only=seq)))
        return taken, _Answer.of(engine, states[0])


def measure_cache_off(
    model: ModelLike, ids: Sequence[int], *, prompt: int, tokens: int = TOKENS, lengths: Sequence[int] = LENGTHS,
    rounds: int = 5, warm_up: int = 1,
) -> Measurement[CacheOff]:
    """First `tokens` greedy tokens from the first `prompt` ids, both ways. Then one step at each length of the text
    `ids` (stretched where it is short), both ways in the same rounds."""
    most = model.config.context_length
    lengths = [n for n in lengths if n + warm_up + rounds <= most]
    check_lengths([*lengths, prompt], max(warm_up + rounds, tokens), most)
    ways = _Ways(model, max(*lengths, prompt) + tokens + rounds + warm_up)
    on_ids, off_ids, difference, margin = yield from part(_proof(ways, ids[:prompt], tokens), 0, 0.3)
    found = []
    for place, length in enumerate(lengths):
        start, stop = (0.3 + 0.7 * (i / len(lengths)) for i in (place, place + 1))
        found.append((yield from part(_at_length(ways, stretched(ids, length), rounds, warm_up), start, stop)))
    return CacheOff(prompt, on_ids, off_ids, difference, margin, tuple(found))


def _proof(
    ways: _Ways, prompt: Sequence[int], tokens: int
) -> Measurement[tuple[tuple[int, ...], tuple[int, ...], float, float]]:
    """Each way follows the tokens that it chose itself; logits are compared as long as those are the same."""
    (seq,) = yield from sequences_at(ways.with_cache, prompt, [len(prompt)], endless_params(GREEDY, tokens))
    off_text = list(prompt)
    on_ids: list[int] = []
    off_ids: list[int] = []
    difference, margin = 0.0, float("inf")
    for place in range(tokens):
        yield Progress(f"token {place + 1} of {tokens}, both ways", place / tokens)
        same = on_ids == off_ids
        _, on = ways.on(seq)
        _, off = ways.off(off_text)
        on_ids.append(on.token_id)
        off_ids.append(off.token_id)
        off_text.append(off.token_id)
        if same:
            difference = max(difference, _difference(on, off))
            margin = min(margin, on.margin)
    ways.with_cache.release(seq)
    return tuple(on_ids), tuple(off_ids), difference, margin


def _at_length(ways: _Ways, ids: Sequence[int], rounds: int, warm_up: int) -> Measurement[OnOff]:
    """The step that completes this text. With the cache a fork of it stands one token before, anew each round."""
    params = endless_params(GREEDY, 1)
    (seq,) = yield from part(sequences_at(ways.with_cache, ids, [len(ids)], params), 0, 0.1)
    answers: dict[str, _Answer] = {}

    def on() -> float:
        fork = ways.with_cache.fork(seq, len(ids), params=params)
        taken, answers["on"] = ways.on(fork)
        ways.with_cache.release(fork)
        return taken

    def off() -> float:
        taken, answers["off"] = ways.off(ids)
        return taken

    taken = yield from part(
        rounds_of({"on": on, "off": off}, rounds=rounds, warm_up=warm_up, text=f"{len(ids):,} tokens, both ways"),
        0.1, 1,
    )  # fmt: skip
    ways.with_cache.release(seq)
    difference, margin = _difference(answers["on"], answers["off"]), answers["on"].margin
    ratio = statistics.median(b / a for a, b in zip(taken["on"], taken["off"], strict=True))
    return OnOff(
        len(ids), Stats.of(taken["on"], warm_up), Stats.of(taken["off"], warm_up), ratio, difference, margin
    )


def _difference(on: _Answer, off: _Answer) -> float:
    """The largest of any logit. Raises MiniInferError if it is more than another order of summation explains."""
    difference = float((on.logits - off.logits).abs().max())
    if not difference <= ROUNDING[on.precision] * float(off.logits.abs().max()):
        raise MiniInferError(
            f"With and without the cache, logits differ by {difference:.3g}, no mere rounding: the engine has a bug."
        )
    return difference
