"""What measurements give: frozen records of plain Python, readable without torch. Times in ms, memory in bytes."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from miniinfer.measure.groups import group_of

Phase = Literal["prefill", "decode"]
StageKey = tuple[str, int | None]  # name of the stage, and its layer, None outside the layers


@dataclass(frozen=True)
class Machine:
    """What a figure depends on beside the model. threads: those that torch uses for one product on the CPU."""

    device: str
    processor: str
    cpus: int
    threads: int
    torch: str


@dataclass(frozen=True)
class Stats:
    """Milliseconds of n rounds after the warm-up: median, 10th and 90th percentile."""

    median_ms: float
    p10_ms: float
    p90_ms: float
    rounds: int
    warm_up: int

    @classmethod
    def of(cls, values: Sequence[float], warm_up: int) -> Stats:
        """values: those that count, in milliseconds; warm_up: how many before them were thrown away."""
        ranked = sorted(values)
        last = len(ranked) - 1
        return cls(
            statistics.median(ranked), ranked[round(0.1 * last)], ranked[round(0.9 * last)], len(ranked), warm_up
        )


@dataclass(frozen=True)
class StageCost:
    """What one stage has to do, counted from shapes: bytes of weights and of the cache that it reads, of its other
    inputs and of everything it writes, each once; operations, a multiply-add being two."""

    stage: str
    layer: int | None
    weight_bytes: int = 0
    kv_bytes: int = 0
    input_bytes: int = 0
    written_bytes: int = 0
    operations: int = 0

    @property
    def num_bytes(self) -> int:
        """All that moves."""
        return self.weight_bytes + self.kv_bytes + self.input_bytes + self.written_bytes

    @property
    def group(self) -> str:
        return group_of(self.stage)


@dataclass(frozen=True)
class StageTime:
    stage: str
    layer: int | None
    ms: float

    @property
    def group(self) -> str:
        return group_of(self.stage)


@dataclass(frozen=True)
class StepParts:
    """A step by its stages, or several steps told as one: step_ms = sum of the stages + gap_ms."""

    phase: Phase
    num_tokens: int  # T of the step
    context_len: int  # C after it
    step_ms: float
    stages: tuple[StageTime, ...]

    @property
    def gap_ms(self) -> float:
        """What lies between the stages."""
        return self.step_ms - sum(s.ms for s in self.stages)


@dataclass(frozen=True)
class CountedParts(StepParts):
    """With what each stage has to do."""

    costs: tuple[StageCost, ...]


@dataclass(frozen=True)
class StepTimes(CountedParts):
    """Where the time of a step goes. The stages are means over the middle half of the rounds (by the time of the whole
    step), which add up, as medians do not; context_len is that of the step in the middle of the rounds.

    watched: steps with the clock of the stages; plain: steps that nobody watched, in the same rounds.
    """

    watched: Stats
    plain: Stats


@dataclass(frozen=True)
class Calibration:
    """What this machine can do: bytes read a second, operations a second by dtype. spread: (p75 - p25) / median."""

    machine: Machine
    bytes_per_second: float
    operations_per_second: dict[str, float]
    spread: dict[str, float]
    rounds: int
    warm_up: int
    buffer_bytes: int

    def seconds(self, num_bytes: int) -> float:
        """An estimate: the time that moving so many bytes takes at the measured bandwidth."""
        return num_bytes / self.bytes_per_second


@dataclass(frozen=True)
class TokenCost:
    """Bytes that one decoded token moves when the cache holds `context_len` positions after it; computed."""

    context_len: int
    weight_bytes: int
    kv_bytes: int
    other_bytes: int

    @property
    def num_bytes(self) -> int:
        return self.weight_bytes + self.kv_bytes + self.other_bytes


@dataclass(frozen=True)
class LengthTime:
    """A decode step at a length: context_len is that of the round in the middle.

    ratio: median over the rounds of (this / the shortest length), timed in the same round.
    """

    context_len: int
    step: Stats
    ratio: float


@dataclass(frozen=True)
class Curve:
    """Per-token cost: computed at every length, measured at some."""

    costs: tuple[TokenCost, ...]
    times: tuple[LengthTime, ...]


@dataclass(frozen=True)
class OnOff:
    """One length with and without the cache: the same next token, or it would not be here.

    ratio: median over the rounds of (without / with), timed in the same round.
    """

    context_len: int
    on: Stats
    off: Stats
    ratio: float
    max_difference: float  # of the logits
    margin: float  # how far the best logit is ahead of the second


@dataclass(frozen=True)
class CacheOff:
    """The same greedy tokens both ways. on_ids, off_ids: what each way chose, from the run's own prompt on."""

    num_prompt_tokens: int
    on_ids: tuple[int, ...]
    off_ids: tuple[int, ...]
    max_difference: float  # the largest of any logit at any of these tokens
    min_margin: float
    lengths: tuple[OnOff, ...]

    @property
    def equal(self) -> bool:
        return self.on_ids == self.off_ids

    @property
    def first_difference(self) -> int | None:
        """Index in the output."""
        pairs = enumerate(zip(self.on_ids, self.off_ids, strict=True))
        return next((i for i, (a, b) in pairs if a != b), None)


@dataclass(frozen=True)
class PrecisionToken:
    """One output token in one precision: what it took, how far the best was ahead of the second (in logits), and what
    it gave the tokens that the others took."""

    token_id: int
    margin: float
    probs: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class PrecisionRun:
    """One precision's run. logit_difference and kl_nats: how far it is from the first dtype at the places where both
    had the same text before them (see PrecisionComparison.num_shared): the largest difference of any raw logit, and
    the mean of KL(first || this) of the raw distributions."""

    dtype: str
    weight_bytes: int
    embedding_bytes: int
    kv_bytes_per_token: int
    allocator_bytes: int | None  # what the device's allocator says; None on the CPU, which has none to ask
    prefill_ms: float
    decode: Stats
    decode_ratio: float  # median over the rounds of (this / the first dtype)
    logit_difference: float
    kl_nats: float
    tokens: tuple[PrecisionToken, ...]


@dataclass(frozen=True)
class PrecisionComparison:
    """The same prompt, settings and coins in several precisions. first_difference: index in the output."""

    num_prompt_tokens: int
    temperature: float
    runs: tuple[PrecisionRun, ...]
    first_difference: int | None

    @property
    def num_shared(self) -> int:
        """Places of the output whose text before them is the same in all runs: up to the first difference."""
        return len(self.runs[0].tokens) if self.first_difference is None else self.first_difference + 1


@dataclass(frozen=True)
class BackendRun:
    """One backend's decode steps. ratio: median over the rounds of (the first backend / this), nobody watching.

    operations: how many torch was asked for in one step, by kind of stage (where the compiled core computes, for memory
    alone); between: by what lies between the stages. num_same: tokens that are those of the first backend, from the
    start of the rounds on; max_difference: of any logit up to the first that is not.
    """

    backend: str
    step: StepTimes
    operations: dict[str, int]
    between: int
    ratio: float
    num_same: int
    max_difference: float

    @property
    def num_operations(self) -> int:
        return sum(self.operations.values()) + self.between


@dataclass(frozen=True)
class BackendComparison:
    """The same decode step by several backends, the reference first. In the same rounds: read, the time to read
    `buffer_bytes`; smallest, that of one torch operation on one number."""

    dtype: str
    runs: tuple[BackendRun, ...]
    buffer_bytes: int
    read: Stats
    smallest: Stats

    @property
    def bytes_per_second(self) -> float:
        return self.buffer_bytes / self.read.median_ms * 1000

    def moving_ms(self, num_bytes: int) -> float:
        """An estimate: what reading so many bytes takes at that bandwidth."""
        return num_bytes / self.bytes_per_second * 1000
