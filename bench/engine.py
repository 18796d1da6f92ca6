"""How fast the engine runs, against the time that reading its weights alone takes on this machine at this moment."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import torch

from bench import report, setting
from bench.passage import passage
from bench.report import Figure
from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.stage import Stage
from miniinfer.engine.state import StepState
from miniinfer.measure.timing import Timing, compare_ms
from miniinfer.models.loader import LoadedModel

SMALL_STAGE = 0.01  # stages with less than this share of the step are given as one sum


@dataclass(frozen=True)
class Size:
    decode: tuple[int, ...] = (64, 256, 1024)
    prefill: tuple[int, ...] = (16, 64, 128, 256, 512)
    together: tuple[int, ...] = (64, 256)  # context of each of the eight
    rounds: int = 54
    prefill_rounds: int = 12


QUICK = Size(decode=(64, 256), prefill=(16, 64), together=(64,), rounds=6, prefill_rounds=4)


class StageClock:
    """An observer that takes the time of every stage; it is told where a step begins. Its own time counts too."""

    def __init__(self) -> None:
        self.steps: list[dict[str, float]] = []
        self._mark = 0.0

    def begin(self) -> None:
        self.steps.append(defaultdict(float))
        self._mark = time.perf_counter()

    def __call__(self, stage: Stage, state: StepState) -> None:
        now = time.perf_counter()
        self.steps[-1][stage.name] += (now - self._mark) * 1000
        self._mark = now


def measure(size: Size, model: LoadedModel | None = None) -> list[Figure]:
    """All figures of this bench."""
    loaded = model or setting.load()
    return setting.in_engine_thread(lambda: _measure(size, loaded))


def _measure(size: Size, model: LoadedModel) -> list[Figure]:
    figures: list[Figure] = []
    read = reader(model.weights.nbytes)
    for context in size.decode:
        start = setting.middle(context, size.rounds)
        figures += steps(model, [start], f"decode step, {context} tokens", size.rounds, read)
    for context in size.together:
        mean = setting.middle(context, size.rounds)
        starts = [max(1, mean * (i + 1) * 2 // 9) for i in range(8)]  # very unequal, with this mean
        figures += steps(model, starts, f"8 together, {context} tokens on average", size.rounds, read)
    for length in size.prefill:
        figures += prefill(model, length, length, size.prefill_rounds)
    longest, chunk = max(size.prefill), EngineConfig().max_num_batched_tokens
    return figures + (prefill(model, longest, chunk, size.prefill_rounds) if longest > chunk else [])


def reader(num_bytes: int) -> Callable[[], object]:
    """Read that many bytes of memory once, front to back: a sum over float32 numbers, with as many threads as a step.

    Of the simple ways to read in torch this is the fastest (tried: sum, max, norm, matrix times vector), and the
    buffer is far larger than the caches. So it is the memory bandwidth that a torch program gets here, not the one
    on the memory's data sheet.
    """
    buffer = torch.ones(num_bytes // 4)
    return buffer.sum


def steps(model: LoadedModel, starts: list[int], name: str, rounds: int, read: Callable[[], object]) -> list[Figure]:
    """Decode steps of sequences that begin with these many positions, all together: without an observer, with one,
    and the read, in the same rounds."""
    clock = StageClock()
    plain, watched = setting.Decoding(model, starts), setting.Decoding(model, starts, clock)

    def observed() -> None:
        clock.begin()
        watched.step()

    times = compare_ms(
        {"plain": plain.step, "observed": observed, "read": read}, rounds=rounds, warm_up=setting.WARM_UP
    )
    read_ms, weights = times["read"].median_ms, model.weights.nbytes
    bandwidth = f"{weights / read_ms / 1e6:.1f} GB/s: {weights:,} bytes, read by torch.sum"
    figures = [
        *_both(name, times["plain"], times["observed"], len(starts)),
        Figure(f"{name}: reading as many bytes", read_ms, "ms", p90=times["read"].p90_ms, note=bandwidth),
        Figure(f"{name}: step : that read", 1 / times["read"].ratio, "x", note="paired by round"),
    ]
    return figures + stages(name, clock.steps[-rounds:])


def prefill(model: LoadedModel, length: int, budget: int, rounds: int) -> list[Figure]:
    """A prompt from its arrival to its first token, at most `budget` tokens a step, without and with an observer."""
    ids, once = passage(model.tokenizer, length), SamplingParams(max_new_tokens=1)
    engine = Engine(model, EngineConfig(max_num_batched_tokens=budget))
    clock = StageClock()

    def run(observer: StageClock | None) -> None:
        seq = engine.add_request(ids, once)
        while not seq.finished:
            if observer is not None:
                observer.begin()
            engine.step(observer)
        engine.release(seq)

    times = compare_ms({"plain": lambda: run(None), "observed": lambda: run(clock)}, rounds=rounds, warm_up=1)
    name = f"prefill of {length} tokens" + (f", {budget} a step" if budget < length else "")
    return _both(name, times["plain"], times["observed"], length)


def _both(name: str, plain: Timing, observed: Timing, tokens: int) -> list[Figure]:
    rate = f"{tokens / plain.median_ms * 1000:,.0f} tokens/s"
    observer = f"an observer that takes the time of each stage; median {observed.median_ms:.1f} ms, paired by round"
    return [
        Figure(name, plain.median_ms, "ms", p90=plain.p90_ms, note=rate),
        Figure(f"{name}: observed : not", observed.ratio, "x", note=observer),
    ]


def stages(name: str, taken: list[dict[str, float]]) -> list[Figure]:
    """Median milliseconds of each kind of stage, all layers together, the longest first."""
    medians = {stage: statistics.median(step[stage] for step in taken) for stage in taken[0]}
    whole = statistics.median(sum(step.values()) for step in taken)
    large = {stage: ms for stage, ms in medians.items() if ms >= SMALL_STAGE * whole}
    figures = [
        Figure(f"{name}: {stage}", ms, "ms", note=f"{ms / whole:.0%}")
        for stage, ms in sorted(large.items(), key=lambda item: -item[1])
    ]
    rest, others = sum(medians.values()) - sum(large.values()), len(medians) - len(large)
    return [*figures, Figure(f"{name}: {others} smaller stages", rest, "ms", note=f"{rest / whole:.0%}")]


if __name__ == "__main__":
    report.main("engine", __doc__ or "", measure, full=Size(), quick=QUICK)
