"""The same decode step by several backends in turn: stage by stage, with what moving its bytes takes here and now, and
how many operations torch was asked for."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from miniinfer.config import SamplingParams
from miniinfer.engine.backend import Backend
from miniinfer.engine.clock import DeviceClock
from miniinfer.engine.engine import Engine
from miniinfer.engine.sequence import Sequence as EngineSequence
from miniinfer.engine.stage import Stage
from miniinfer.engine.state import StepState
from miniinfer.engine.weights import ModelLike
from miniinfer.errors import BadInputError
from miniinfer.measure.calibration import BUFFER_BYTES
from miniinfer.measure.progress import Measurement, part
from miniinfer.measure.records import BackendComparison, BackendRun, Stats
from miniinfer.measure.stage_times import PLAIN, WATCHED, Watching
from miniinfer.measure.workload import check_lengths, endless_params, own_engine, rounds_of, sequences_at, stretched

SMALLEST = 1000  # operations on one number, timed together
READ, SMALL = "read", "smallest operation"


class Operations(TorchDispatchMode):
    """Counts the operations that torch is asked for, by the kind of stage that asks. An observer too: pass it to the
    step that runs inside it."""

    def __init__(self) -> None:
        super().__init__()
        self.by_stage: Counter[str] = Counter()
        self.total = 0
        self._seen = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.total += 1
        return func(*args, **(kwargs or {}))

    def __call__(self, stage: Stage, state: StepState) -> None:
        self.by_stage[stage.name] += self.total - self._seen
        self._seen = self.total

    @property
    def between(self) -> int:
        """Those that no stage asked for."""
        return self.total - self.by_stage.total()


class _Course:
    """One backend's engine with two sequences of the same text: one is watched, the other is not."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.clock, self.watching = DeviceClock(engine.device), Watching(engine)
        self.logits: list[Tensor] = []  # [V] of each step of the one that nobody watches
        self.watched: EngineSequence
        self.plain: EngineSequence

    def fill(self, ids: Sequence[int], params: SamplingParams) -> Measurement[None]:
        self.watched, self.plain = yield from sequences_at(self.engine, ids, [len(ids)] * 2, params)

    def watched_step(self) -> float:
        return self.watching.step(self.watched)

    def plain_step(self) -> float:
        states: list[StepState | None] = []
        taken = self.clock.time(lambda: states.append(self.engine.step(only=self.plain)))
        assert states[0] is not None
        self.logits.append(states[0].raw_logits[-1].clone())
        return taken

    def operations(self) -> Operations:
        """Of one more step."""
        with Operations() as counted:
            self.engine.step(counted, only=self.watched)
        return counted


def measure_backends(
    model: ModelLike, ids: Sequence[int], length: int, params: SamplingParams, backends: Sequence[Backend], *,
    rounds: int = 24, warm_up: int = 3, buffer_bytes: int = BUFFER_BYTES,
) -> Measurement[BackendComparison]:
    """Decode steps around the one with `length` positions in the cache, by each of the backends, the reference first.

    Each round also reads a buffer beyond the processor's caches, and asks for the smallest operation there is, so that
    both are known as they are at that moment. Raises BadInputError.
    """
    if not backends:
        raise BadInputError("There is no backend to measure with.")
    start = max(1, length - warm_up - rounds // 2)
    check_lengths([start], warm_up + rounds + 1, model.config.context_length)
    settings = endless_params(params, start + warm_up + rounds + 2)
    courses = [_Course(own_engine(model, backend=b)) for b in backends]
    for place, course in enumerate(courses):
        filling = course.fill(stretched(ids, start), settings)
        yield from part(filling, 0.2 * place / len(courses), 0.2 * (place + 1) / len(courses))
    device = model.weights.device
    clock, buffer, one = DeviceClock(device), torch.ones(buffer_bytes // 4, device=device), torch.ones(1, device=device)

    @torch.inference_mode()
    def smallest() -> None:
        for _ in range(SMALLEST):
            one.neg()

    jobs = {READ: lambda: clock.time(buffer.sum), SMALL: lambda: clock.time(smallest)}
    for place, course in enumerate(courses):
        jobs |= {f"{WATCHED} {place}": course.watched_step, f"{PLAIN} {place}": course.plain_step}
    taken = yield from part(
        rounds_of(jobs, rounds=rounds, warm_up=warm_up, text=f"decode at {length:,} tokens"), 0.2, 1
    )
    runs = []
    for place, course in enumerate(courses):
        watched, plain = taken[f"{WATCHED} {place}"], taken[f"{PLAIN} {place}"]
        ratio = statistics.median(a / b for a, b in zip(taken[f"{PLAIN} 0"], plain, strict=True))
        same, difference = _held_against(course, courses[0])
        operations = course.operations()
        runs.append(BackendRun(
            backends[place].name, course.watching.result("decode", watched, plain, warm_up),
            dict(operations.by_stage), operations.between, ratio, same, difference,
        ))  # fmt: skip
    return BackendComparison(
        model.weights.precision, tuple(runs), buffer.nbytes, Stats.of(taken[READ], warm_up),
        Stats.of([ms / SMALLEST for ms in taken[SMALL]], warm_up),
    )


def _held_against(course: _Course, first: _Course) -> tuple[int, float]:
    """How many tokens are the same from the start of the rounds on, and the largest difference of any logit up to the
    first that is not."""
    tokens = zip(course.plain.output_ids, first.plain.output_ids, strict=True)
    same = next((i for i, (a, b) in enumerate(tokens) if a != b), len(course.logits))
    pairs = list(zip(course.logits, first.logits, strict=True))[: same + 1]
    return same, max(float((a - b).abs().max()) for a, b in pairs)
