"""A decode step and a prefill in each precision, everything recorded, against reading the weights and against others;
by torch and, where it can be built, by the compiled core.

In one run and in the same rounds: our steps as the app makes them, with the recorder; a read of as many bytes as that
precision's weights have; and the same work by other software that happens to be installed (transformers with our
weights, llama.cpp on the model's file). Ratios are the median over the rounds. The bars are what this project asks of
itself.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench import peers, report, setting
from bench.engine import reader
from bench.report import Figure
from miniinfer.engine.backend import backend_of
from miniinfer.measure.timing import rounds_ms, timing_of
from miniinfer.models.loader import LoadedModel
from miniinfer.native.choose import choose_backend

MODES = ("float32", "bfloat16", "packed")
SLOW_PEER = "transformers float32, attentions"
NATIVE = {mode: f"{mode}, native" for mode in MODES}  # the same by the compiled core
DECODE_BARS = {
    ("float32", SLOW_PEER): 0.4, (NATIVE["float32"], SLOW_PEER): 0.4,
    ("packed", "llama.cpp"): 0.8, (NATIVE["packed"], "llama.cpp"): 0.8,
}  # fmt: skip
PREFILL_BARS = {
    ("float32", "transformers float32"): 0.5, (NATIVE["float32"], "transformers float32"): 0.5,
    ("bfloat16", "transformers bfloat16"): 0.8, (NATIVE["bfloat16"], "transformers bfloat16"): 0.8,
    (NATIVE["packed"], "transformers bfloat16"): 0.8,
}  # fmt: skip


@dataclass(frozen=True)
class Size:
    contexts: tuple[int, ...] = (64, 256, 1024)
    prefill: int = 512
    rounds: int = 30
    prefill_rounds: int = 6


QUICK = Size(contexts=(64,), prefill=64, rounds=4, prefill_rounds=2)


def measure(size: Size, models: dict[str, LoadedModel] | None = None) -> list[Figure]:
    """All figures of this bench. models: by precision, float32 among them."""
    loaded = models or {dtype: setting.load(dtype) for dtype in MODES}
    return setting.in_engine_thread(lambda: _measure(size, loaded))


def with_native(models: dict[str, LoadedModel]) -> dict[str, LoadedModel]:
    """The same, and once more those that the compiled core can decode, if it can be had."""
    found = dict(models)
    for mode, name in NATIVE.items():
        if mode in models:
            backend = choose_backend("auto", models[mode].weights, wait=True)
            if backend.name == "native":
                found[name] = dataclasses.replace(models[mode], choose_backend=lambda _weights, it=backend: it)
    return found


def bytes_read(model: LoadedModel) -> int:
    """Of weights, by a step that decodes."""
    return backend_of(model).weights(model.weights).nbytes


def _measure(size: Size, models: dict[str, LoadedModel]) -> list[Figure]:
    models = with_native(models)
    longest = max((*size.contexts, size.prefill)) + size.rounds + setting.WARM_UP + 1
    others = {name: make() for name, make in peers.installed(models["float32"], longest).items()}
    figures = [Figure(f"{mode}: weights read a step", bytes_read(m), "bytes") for mode, m in models.items()]
    for context in size.contexts:
        figures += decode(models, others, context, size.rounds)
    return figures + prefill(models, others, size.prefill, size.prefill_rounds)


def decode(
    models: dict[str, LoadedModel], others: dict[str, peers.Peer], context: int, rounds: int
) -> list[Figure]:
    """One token with `context` positions in the cache (in the middle round)."""
    start = setting.middle(context, rounds)
    jobs: dict[str, Callable[[], object]] = {}
    for mode, model in models.items():
        jobs[mode] = setting.step_until(setting.live_run(model, start), start).step
        jobs[_read(mode)] = reader(bytes_read(model))
    for name, peer in others.items():
        peer.prompt(start)
        jobs[name] = peer.step
    taken = rounds_ms(jobs, rounds=rounds, warm_up=setting.WARM_UP)
    name = f"decode, T = {context}"
    figures = _times(name, taken)
    for mode, model in models.items():
        bandwidth = statistics.median(bytes_read(model) / ms / 1e6 for ms in taken[_read(mode)])
        note = f"{bandwidth:.1f} GB/s, paired by round"
        figures.append(Figure(f"{name}: {mode} : that read", _ratio(taken[mode], taken[_read(mode)]), "x", note=note))
    return figures + _beside(name, models, others, taken, DECODE_BARS)


def prefill(
    models: dict[str, LoadedModel], others: dict[str, peers.Peer], length: int, rounds: int
) -> list[Figure]:
    """A prompt from its arrival to its first token, in one pass, as the app does it."""
    jobs: dict[str, Callable[[], object]] = {
        mode: lambda model=model: setting.step_until(setting.live_run(model, length), length)  # type: ignore[misc]
        for mode, model in models.items()
    }
    for name, peer in others.items():
        jobs[name] = lambda peer=peer: peer.prompt(length)  # type: ignore[misc]
    taken = rounds_ms(jobs, rounds=rounds, warm_up=1)
    name = f"prefill of {length}"
    return _times(name, taken) + _beside(name, models, others, taken, PREFILL_BARS)


def _read(mode: str) -> str:
    return f"reading the {mode} weights"


def _times(name: str, taken: dict[str, list[float]]) -> list[Figure]:
    timings = {variant: timing_of(values, values) for variant, values in taken.items()}
    return [Figure(f"{name}: {variant}", t.median_ms, "ms", p90=t.p90_ms) for variant, t in timings.items()]


def _beside(
    name: str, models: dict[str, LoadedModel], others: dict[str, peers.Peer], taken: dict[str, list[float]],
    bars: dict[tuple[str, str], float],
) -> list[Figure]:  # fmt: skip
    return [
        Figure(f"{name}: {mode} : {other}", _ratio(taken[mode], taken[other]), "x", bars.get((mode, other)))
        for mode in models
        for other in others
    ]


def _ratio(values: Sequence[float], reference: Sequence[float]) -> float:
    return timing_of(values, reference).ratio


if __name__ == "__main__":
    report.main("decode", __doc__ or "", measure, full=Size(), quick=QUICK)
