"""Two engines stepped side by side, stage by stage, until their numbers part: where a changed program first differs.

Every stage runs in both engines before the next one does, so each pair of tensors is compared while it stands in the
two states, and nothing of a step has to be kept.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from miniinfer.config import SamplingParams
from miniinfer.trace.capture import StageCapture, StageTensor
from miniinfer.trace.chosen import ChoiceWatch, Chosen
from miniinfer.trace.compare import RunComparison, StageDifference, compare_outputs, compare_stages
from miniinfer.trace.records import NextToken, Phase, TokenInfo

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.sequence import Sequence as EngineSequence
    from miniinfer.engine.state import StepState

NUM_BARS = 12


@dataclass(frozen=True)
class SideRecord:
    """One of the two runs: its prompt, what each output token was chosen from, and why it ended.

    error: the sentence if no token could be drawn.
    """

    prompt: tuple[TokenInfo, ...]
    outputs: tuple[NextToken, ...]
    finish_reason: str | None
    error: str | None

    @property
    def output_tokens(self) -> tuple[TokenInfo, ...]:
        return tuple(next(t for t in n.tokens if t.token_id == n.token_id) for n in self.outputs)


@dataclass(frozen=True)
class FirstStage:
    """The first tensor that differs at all, bit for bit: in which step (from 1), by how much, and both its shapes."""

    step: int
    phase: Phase
    difference: StageDifference
    shapes: tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class NextBars:
    """What both sides could have taken at one place of the output (index from 0): the best of either.

    a, b: probabilities that the logits processors left, None on a side that has ended. taken: each side's token id.
    """

    index: int
    tokens: tuple[TokenInfo, ...]
    a: tuple[float, ...] | None
    b: tuple[float, ...] | None
    taken: tuple[int | None, int | None]


@dataclass(frozen=True)
class LockstepRecord:
    """first is None if no tensor of any compared step differs. stages: every tensor of that step, in program order.

    growth [L]: for that step's newest row, |a - b| / |a| of the residual stream after each layer. steps: engine steps
    that were compared tensor by tensor; after the step that differs the two runs are no longer fed the same.
    """

    a: SideRecord
    b: SideRecord
    first: FirstStage | None
    stages: tuple[StageDifference, ...]
    growth: tuple[float, ...]
    steps: int
    comparison: RunComparison
    bars: tuple[NextBars, ...]


class Lockstep:
    """One request in each of two engines. Every item of `work` is one step of both; then `record` says what came out.

    Its methods touch tensors, so they are called in the engine's thread.
    """

    def __init__(
        self, a: Engine, b: Engine, ids: tuple[Sequence[int], Sequence[int]], params: SamplingParams,
        describe: Callable[[int], TokenInfo],
    ) -> None:
        self._engines = (a, b)
        self._seqs = tuple(engine.add_request(part, params) for engine, part in zip(self._engines, ids, strict=True))
        self._describe = describe
        self._outputs: tuple[list[Chosen], list[Chosen]] = ([], [])
        self._first: FirstStage | None = None
        self._stages: list[StageDifference] = []
        self._growth: list[float] = []
        self._compared = 0

    def work(self) -> Iterator[int]:
        """Runs both to their ends; gives the number of the step that was just done."""
        step = 0
        while not all(seq.finished for seq in self._seqs):
            step += 1
            if self._first is None and not any(seq.finished for seq in self._seqs):
                self._step_compared(step)
            else:
                for engine, seq, outputs in zip(self._engines, self._seqs, self._outputs, strict=True):
                    watch = ChoiceWatch()
                    state = None if seq.finished else engine.step(watch, only=seq)
                    if state is not None:
                        self._note(watch, state, outputs)
            yield step

    def _step_compared(self, step: int) -> None:
        """One step of both, stage by stage."""
        states = tuple(engine.begin_step(only=seq) for engine, seq in zip(self._engines, self._seqs, strict=True))
        a, b = states
        assert a is not None
        assert b is not None
        watches = (ChoiceWatch(), ChoiceWatch())
        in_prefill = self._seqs[0].in_prefill
        found: list[StageDifference] = []
        growth: list[float] = []
        for place in range(1, len(self._engines[0].program) + 1):
            captures = tuple(
                self._one_stage(engine, state, place, watch)
                for engine, state, watch in zip(self._engines, (a, b), watches, strict=True)
            )
            differences = compare_stages(captures[0], captures[1], tolerance=0).differences
            found += differences
            if self._first is None:
                self._look_for_first(step, "prefill" if in_prefill else "decode", differences, captures)
            growth += [_relative(x, y) for x, y in zip(*captures, strict=True) if x.name == "resid_post"]
        self._compared = step
        if self._first is not None:
            self._stages, self._growth = found, growth
        for watch, state, outputs in zip(watches, (a, b), self._outputs, strict=True):
            self._note(watch, state, outputs)

    def _one_stage(self, engine: Engine, state: StepState, place: int, watch: ChoiceWatch) -> list[StageTensor]:
        capture = StageCapture()

        def look(stage: object, _state: object) -> None:
            capture(stage, state)  # type: ignore[arg-type]
            watch(stage, state)  # type: ignore[arg-type]

        engine.advance(state, until=place, observer=look)
        return capture.tensors

    def _look_for_first(
        self, step: int, phase: Phase, differences: Sequence[StageDifference], captures: tuple[list[StageTensor], ...]
    ) -> None:
        for difference, x, y in zip(differences, *captures, strict=True):
            if difference.largest > 0:
                self._first = FirstStage(step, phase, difference, (x.values.shape, y.values.shape))
                return

    def _note(self, watch: ChoiceWatch, state: StepState, outputs: list[Chosen]) -> None:
        chosen = watch.chosen(state, self._describe)
        if chosen is not None:
            outputs.append(chosen)

    def record(self) -> LockstepRecord:
        a, b = (self._side(seq, outputs) for seq, outputs in zip(self._seqs, self._outputs, strict=True))
        same = [t.token_id for t in a.prompt] == [t.token_id for t in b.prompt]
        comparison = RunComparison(same, compare_outputs(a.outputs, b.outputs))
        bars = tuple(self._bars(index, x, y) for index, (x, y) in enumerate(itertools.zip_longest(*self._outputs)))
        return LockstepRecord(
            a, b, self._first, tuple(self._stages), tuple(self._growth), self._compared, comparison, bars
        )

    def _bars(self, index: int, x: Chosen | None, y: Chosen | None) -> NextBars:
        sides = [side for side in (x, y) if side is not None]
        best = np.max([side.processed for side in sides], axis=0)  # [V]
        taken = tuple(side.next_token.token_id if side is not None else None for side in (x, y))
        ids = np.argsort(-best, kind="stable")[:NUM_BARS].tolist()
        ids += [i for i in dict.fromkeys(taken) if i is not None and i not in ids]
        probs = [None if side is None else tuple(float(side.processed[i]) for i in ids) for side in (x, y)]
        return NextBars(index, tuple(map(self._describe, ids)), probs[0], probs[1], (taken[0], taken[1]))

    def _side(self, seq: EngineSequence, outputs: list[Chosen]) -> SideRecord:
        prompt = tuple(self._describe(i) for i in seq.prompt_ids)
        return SideRecord(prompt, tuple(c.next_token for c in outputs), seq.finish_reason, seq.error)

    def close(self) -> None:
        """Give all blocks back, whatever state the two are in."""
        for engine, seq in zip(self._engines, self._seqs, strict=True):
            engine.release(seq)


def _relative(x: StageTensor, y: StageTensor) -> float:
    """|a - b| / |a| of the newest row; nan where it is not finite."""
    a, b = x.values[-1].astype(np.float64), y.values[-1].astype(np.float64)
    length = float(np.linalg.norm(a))
    return float(np.linalg.norm(a - b)) / length if length > 0 else math.nan
