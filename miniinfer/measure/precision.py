"""The same run in several precisions: bytes, time in the same rounds, and where the text first differs.

All of them are computed by torch: the core sums in another order and rounds less often, and what is compared here is
the precision alone.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from miniinfer.config import SamplingParams
from miniinfer.engine.backend import TORCH
from miniinfer.engine.clock import DeviceClock, allocator_bytes
from miniinfer.engine.engine import Engine
from miniinfer.engine.sequence import Sequence as EngineSequence
from miniinfer.engine.weights import ModelLike
from miniinfer.errors import BadInputError
from miniinfer.measure.progress import Measurement, Progress, part
from miniinfer.measure.records import PrecisionComparison, PrecisionRun, PrecisionToken, Stats
from miniinfer.measure.workload import CHUNK, check_lengths, endless_params, own_engine, rounds_of

TOKENS = 32
WARM_UP = 2  # steps, with the cache already filled


class _Course:
    """One precision's run: the prompt, then a token a step, whatever the others take. one_pass: prompt tokens of one
    step at most."""

    def __init__(self, model: ModelLike, ids: Sequence[int], params: SamplingParams, one_pass: int) -> None:
        self.model = model
        self.engine: Engine = own_engine(model, one_pass=one_pass, backend=TORCH)
        self.clock = DeviceClock(self.engine.device)
        self.seq: EngineSequence = self.engine.add_request(ids, params)
        self.logits: list[Tensor] = []

    def step(self) -> float:
        states = []
        taken = self.clock.time(lambda: states.append(self.engine.step(only=self.seq)))
        state = states[0]
        assert state is not None
        if len(state.raw_logits):  # nobody is sampled before the end of the prompt
            self.logits.append(state.raw_logits[-1].clone())
        return taken

    def prefill(self, name: str, share: float) -> Measurement[float]:
        """All of the prompt, to the first token: milliseconds."""
        taken = 0.0
        while not self.logits:
            yield Progress(f"{name}: prefill", share)
            taken += self.step()
        return taken

    def distance(self, reference: _Course, places: int) -> tuple[float, float]:
        """Of the first `places` raw logits: the largest difference, and the mean KL(reference || this) in nats."""
        ours, theirs = torch.stack(self.logits[:places]), torch.stack(reference.logits[:places])  # [places, V]
        log_p, log_q = theirs.log_softmax(-1), ours.log_softmax(-1)
        kl = (log_p.exp() * (log_p - log_q)).sum(-1).clamp(min=0)  # rounding may make it slightly negative
        return float((ours - theirs).abs().max()), float(kl.mean())

    def token(self, place: int, others: Sequence[int]) -> PrecisionToken:
        """others: the tokens that are compared at this place."""
        logits = self.logits[place]
        best = logits.topk(2).values
        probs = logits.softmax(-1)
        return PrecisionToken(
            self.seq.output_ids[place], float(best[0] - best[1]), {i: float(probs[i]) for i in set(others)}
        )


def warm_up_steps(
    model: ModelLike, ids: Sequence[int], params: SamplingParams, one_pass: int
) -> Measurement[None]:
    """A short run of each precision, thrown away: its kernels are loaded, its memory is touched."""
    course = _Course(model, ids, endless_params(params, 1 + WARM_UP), one_pass)
    yield from course.prefill("warm-up", 0.0)
    for number in range(1, 1 + WARM_UP):
        yield Progress("warm-up", number / (1 + WARM_UP))
        course.step()


def measure_precision(
    models: Mapping[str, ModelLike], ids: Sequence[int], params: SamplingParams, *, tokens: int = TOKENS,
    one_pass: int = CHUNK,
) -> Measurement[PrecisionComparison]:
    """models: by dtype, the reference first. The decode steps of all of them take turns, in a new order each round.
    one_pass: prompt tokens of one step at most."""
    if len(models) < 2:
        raise BadInputError("A comparison needs at least two precisions.")
    check_lengths([len(ids)], tokens, min(model.config.context_length for model in models.values()))
    settings = endless_params(params, tokens)
    for place, (name, model) in enumerate(models.items()):
        share = 0.3 / len(models)
        yield Progress(f"{name}: warm-up", place * share)
        yield from part(warm_up_steps(model, ids, params, one_pass), place * share, (place + 1) * share)
    courses = {name: _Course(model, ids, settings, one_pass) for name, model in models.items()}
    prefill = {}
    for name, course in courses.items():
        prefill[name] = yield from course.prefill(name, 0.3)
    taken: dict[str, list[float]] = {name: [] for name in courses}
    if tokens > 1:
        taken = yield from part(
            rounds_of(
                {name: course.step for name, course in courses.items()}, rounds=tokens - 1, warm_up=0, text="decode"
            ), 0.3, 1,
        )  # fmt: skip
    first = next(iter(courses))
    chosen = [[course.seq.output_ids[i] for course in courses.values()] for i in range(tokens)]
    differs = next((i for i, ids_ in enumerate(chosen) if len(set(ids_)) > 1), None)
    shared = tokens if differs is None else differs + 1
    runs = tuple(
        _run(
            name, course, prefill[name], taken[name], taken[first], course.distance(courses[first], shared), chosen
        )
        for name, course in courses.items()
    )  # fmt: skip
    return PrecisionComparison(len(ids), settings.temperature, runs, differs)


def _run(
    name: str, course: _Course, prefill_ms: float, taken: list[float], reference: list[float],
    distance: tuple[float, float], chosen: list[list[int]],
) -> PrecisionRun:  # fmt: skip
    model = course.model
    return PrecisionRun(
        name, model.weights.nbytes, model.weights.embedding.nbytes,
        model.config.kv_bytes_per_token(model.weights.dtype.itemsize), allocator_bytes(course.engine.device),
        prefill_ms, Stats.of(taken, 1 + WARM_UP),
        statistics.median(a / b for a, b in zip(taken, reference, strict=True)), *distance,
        tuple(course.token(place, ids) for place, ids in enumerate(chosen)),
    )
