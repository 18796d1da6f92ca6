"""Where the time of a step goes, stage by stage, measured beside the same steps without anybody watching."""

from __future__ import annotations

from collections.abc import Sequence

from miniinfer.config import SamplingParams
from miniinfer.engine.clock import DeviceClock, Mark
from miniinfer.engine.engine import Engine
from miniinfer.engine.sequence import Sequence as EngineSequence
from miniinfer.engine.stage import Stage
from miniinfer.engine.state import StepState
from miniinfer.engine.weights import ModelLike
from miniinfer.measure.counting import StepShape, count_step
from miniinfer.measure.progress import Measurement, part
from miniinfer.measure.records import Phase, StageKey, StageTime, Stats, StepTimes
from miniinfer.measure.workload import check_lengths, endless_params, own_engine, rounds_of, sequences_at, stretched

WATCHED, PLAIN = "watched", "plain"


class StageClock:
    """An observer that marks the end of every stage, and which logits processors changed something.

    The marks are read after the step, so that on a GPU nothing waits for it between two stages.
    """

    def __init__(self, clock: DeviceClock) -> None:
        self.clock = clock
        self.begin()

    def begin(self) -> None:
        """Call right before a step."""
        self._marks: list[tuple[StageKey, Mark, Mark]] = []
        self._changed: set[str] = set()
        self._logits: object = None
        self.shape: StepShape | None = None
        self._start = self.clock.mark()
        self._last = self._start

    def __call__(self, stage: Stage, state: StepState) -> None:
        now = self.clock.mark()
        self._marks.append(((stage.name, stage.layer), self._last, now))
        if stage.processor is not None and state.logits is not self._logits:
            self._changed.add(stage.name)
        self._logits = state.logits
        if stage.name == "sample":  # commit moves the sequences on, but this step's shape is fixed by now
            self.shape = StepShape.of(state, self._changed)
        self._last = self.clock.mark()  # its own time belongs to no stage, so it is part of the gap

    def read(self) -> tuple[float, dict[StageKey, float]]:
        """The whole step and each of its stages, in milliseconds. Call right after the step."""
        end = self.clock.mark()
        step_ms = self.clock.ms(self._start, end)
        return step_ms, {key: self.clock.ms(start, stop) for key, start, stop in self._marks}


class Watching:
    """Steps with a StageClock; keeps what each round took."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.stage_clock = StageClock(DeviceClock(engine.device))
        self.rounds: list[tuple[float, dict[StageKey, float]]] = []
        self.shapes: list[StepShape] = []

    def step(self, seq: EngineSequence) -> float:
        self.stage_clock.begin()
        self.engine.step(self.stage_clock, only=seq)
        step_ms, stages = self.stage_clock.read()
        self.rounds.append((step_ms, stages))
        assert self.stage_clock.shape is not None
        self.shapes.append(self.stage_clock.shape)
        return step_ms

    def result(self, phase: Phase, watched: list[float], plain: list[float], warm_up: int) -> StepTimes:
        """watched, plain: milliseconds of the rounds that count, of these steps and of those that nobody watched."""
        counted, shapes = self.rounds[warm_up:], self.shapes[warm_up:]
        ranked = sorted(counted, key=lambda round_: round_[0])
        quarter = len(ranked) // 4
        middle = ranked[quarter : len(ranked) - quarter]
        keys = list(middle[0][1])
        stages = tuple(
            StageTime(name, layer, sum(taken_[(name, layer)] for _, taken_ in middle) / len(middle))
            for name, layer in keys
        )
        shape = shapes[len(shapes) // 2]
        engine = self.engine
        return StepTimes(
            phase, shape.num_tokens, max(C for _, _, C in shape.groups), sum(ms for ms, _ in middle) / len(middle),
            stages, count_step(engine.program, engine.weights, engine.model_config, shape),
            Stats.of(watched, warm_up), Stats.of(plain, warm_up),
        )


def measure_prefill(
    model: ModelLike, ids: Sequence[int], params: SamplingParams, *, rounds: int = 8, warm_up: int = 1
) -> Measurement[StepTimes]:
    """A prompt in one pass, from its arrival to its first token."""
    engine = own_engine(model, one_pass=max(1, len(ids)))
    once = endless_params(params, 1)
    check_lengths([len(ids)], 1, engine.context_length)
    watching, clock = Watching(engine), DeviceClock(engine.device)

    def watched() -> float:
        seq = engine.add_request(ids, once)
        taken = watching.step(seq)
        engine.release(seq)
        return taken

    def plain() -> float:
        seq = engine.add_request(ids, once)
        taken = clock.time(lambda: engine.step(only=seq))
        engine.release(seq)
        return taken

    taken = yield from rounds_of(
        {WATCHED: watched, PLAIN: plain}, rounds=rounds, warm_up=warm_up, text=f"prefill of {len(ids):,} tokens"
    )
    return watching.result("prefill", taken[WATCHED], taken[PLAIN], warm_up)


def measure_decode(
    model: ModelLike, ids: Sequence[int], length: int, params: SamplingParams, *, rounds: int = 24, warm_up: int = 3
) -> Measurement[StepTimes]:
    """Decode steps around the one with `length` positions in the cache. ids: the text, stretched where it is short."""
    engine = own_engine(model)
    start = max(1, length - warm_up - rounds // 2)
    check_lengths([start], warm_up + rounds, engine.context_length)
    settings = endless_params(params, start + warm_up + rounds + 1)
    pair = yield from part(sequences_at(engine, stretched(ids, start), [start, start], settings), 0, 0.1)
    watching, clock = Watching(engine), DeviceClock(engine.device)
    taken = yield from part(
        rounds_of(
            {
                WATCHED: lambda: watching.step(pair[0]),
                PLAIN: lambda: clock.time(lambda: engine.step(only=pair[1])),
            },
            rounds=rounds, warm_up=warm_up, text=f"decode at {length:,} tokens",
        ), 0.1, 1,
    )  # fmt: skip
    return watching.result("decode", taken[WATCHED], taken[PLAIN], warm_up)
