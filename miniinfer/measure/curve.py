"""What a token costs at every length: bytes counted, and time measured at some lengths in the same rounds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from miniinfer.engine.backend import backend_of
from miniinfer.engine.clock import DeviceClock
from miniinfer.engine.program import build_program
from miniinfer.engine.sequence import Sequence as EngineSequence
from miniinfer.engine.weights import ModelLike
from miniinfer.measure.counting import token_cost
from miniinfer.measure.progress import Measurement, part
from miniinfer.measure.records import Curve, LengthTime, Stats, TokenCost
from miniinfer.measure.workload import GREEDY, check_lengths, endless_params, own_engine, rounds_of, sequences_at

LENGTHS = (16, 64, 256, 512, 1024, 2000)
LONGEST = 2000


def token_costs(
    model: ModelLike, longest: int = LONGEST, also: Sequence[int] = (), points: int = 41
) -> tuple[TokenCost, ...]:
    """Bytes that a decoded token moves, at position 1, at even distances from there to `longest`, and `also` at these.

    Computed: nothing runs. All parts lie on straight lines over the length, so two lengths are counted."""
    longest = min(longest, model.config.context_length)
    program = build_program(model.config)
    lengths = sorted({1 + round(i * (longest - 1) / max(points - 1, 1)) for i in range(points)} | set(also))
    weights = backend_of(model).weights(model.weights)  # in the form in which they are read
    first, second = (token_cost(program, weights, model.config, length) for length in (1, 2))
    return tuple(
        TokenCost(
            length, first.weight_bytes, first.kv_bytes + (length - 1) * (second.kv_bytes - first.kv_bytes),
            first.other_bytes + (length - 1) * (second.other_bytes - first.other_bytes),
        )
        for length in lengths
    )


def measure_lengths(
    model: ModelLike, ids: Sequence[int], lengths: Sequence[int] = LENGTHS, *, rounds: int = 15, warm_up: int = 2
) -> Measurement[tuple[LengthTime, ...]]:
    """Greedy decode steps around each length, all lengths once a round."""
    engine = own_engine(model)
    starts = [max(1, length - warm_up - rounds // 2) for length in lengths]
    check_lengths(starts, warm_up + rounds, engine.context_length)
    params = endless_params(GREEDY, warm_up + rounds + 1)
    seqs = yield from part(sequences_at(engine, ids, starts, params), 0, 0.4)
    clock = DeviceClock(engine.device)

    def step_of(seq: EngineSequence) -> float:
        return clock.time(lambda: engine.step(only=seq))

    taken = yield from part(
        rounds_of(
            {str(i): lambda seq=seq: step_of(seq) for i, seq in enumerate(seqs)},  # type: ignore[misc]
            rounds=rounds, warm_up=warm_up, text="decode at all lengths",
        ), 0.4, 1,
    )  # fmt: skip
    shortest = taken[str(starts.index(min(starts)))]
    return tuple(
        LengthTime(
            start + warm_up + rounds // 2, Stats.of(taken[str(i)], warm_up),
            statistics.median(a / b for a, b in zip(taken[str(i)], shortest, strict=True)),
        )
        for i, start in enumerate(starts)
    )


def measure_curve(
    model: ModelLike, ids: Sequence[int], lengths: Sequence[int] = LENGTHS, *, rounds: int = 15, warm_up: int = 2
) -> Measurement[Curve]:
    """Both."""
    fitting = [n for n in lengths if n + rounds <= model.config.context_length]
    times = yield from measure_lengths(model, ids, fitting, rounds=rounds, warm_up=warm_up)
    return Curve(token_costs(model, max(lengths), [t.context_len for t in times]), times)
