"""What goes to the browser for a prefill, a first sync and a decode step: bytes, and the time to build them."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, replace
from typing import Any

from bench import report, setting
from bench.report import Figure
from miniinfer.figures.workspace import ExactAsk, HeadAsk, Selection, encode
from miniinfer.models.loader import LoadedModel
from miniinfer.trace.live_run import LiveRun

MOST_SYNC = 1_000_000  # bytes, at 500 tokens
MOST_GROWTH = 1.2  # bytes a token later in the context against earlier: 1 is linear, a square would give about 2.4
MOST_PREFILLS = 5  # messages of whole prefills that are timed: each takes a prefill
PARTS = {  # what a message asks its run for, and what it is called here
    "next_token": "next token", "rows_at": "rows", "head_rows": "head", "head_map": "head, pooled",
    "exact_row": "exact row", "kv_norms": "norms of K and V",
    "pooled_maps": "pooled maps",
}


@dataclass(frozen=True)
class Size:
    contexts: tuple[int, ...] = (64, 250, 500)
    prompt: int = 32  # tokens of the prompt of the run that is decoded through all contexts
    rounds: int = 20  # steps up to each context of which the time is taken


QUICK = Size(contexts=(16, 64, 128), prompt=8, rounds=4)


class Watched:
    """A run that notes how long each of its answers takes; `encode` cannot tell it from the run itself."""

    def __init__(self, run: LiveRun) -> None:
        self._run = run
        self.ms = dict.fromkeys(PARTS.values(), 0.0)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._run, name)
        if name not in PARTS:
            return value

        def timed(*args: int) -> Any:
            start = time.perf_counter()
            try:
                return value(*args)
            finally:
                self.ms[PARTS[name]] += (time.perf_counter() - start) * 1000

        return timed


def measure(size: Size, model: LoadedModel | None = None) -> list[Figure]:
    """All figures of this bench."""
    loaded = model or setting.load()
    return setting.in_engine_thread(lambda: _measure(size, loaded))


def _measure(size: Size, model: LoadedModel) -> list[Figure]:
    run = setting.live_run(model, size.prompt)
    figures, step_bytes = [], {}
    for context in size.contexts:
        figures += prefill(model, context, size.rounds)
        found, step_bytes[context] = decode(run, context, size.rounds)
        figures += found
        figures += first_sync(run, size.rounds)
    return figures + growth(step_bytes)


def prefill(model: LoadedModel, context: int, rounds: int) -> list[Figure]:
    """The answer to the first step of a run whose prompt the browser shows already, and the head in view after it."""
    answer = Selection(cursor=1, have_tokens=context, details=(1,), exact=ExactAsk(0, 0))
    built = []
    for _ in range(min(rounds, MOST_PREFILLS)):
        run = setting.live_run(model, context)
        assert len(run.tokens) == context  # shown before the first step
        run.step()
        built.append(_build(run, answer))
    head = replace(_has_all(run), head=HeadAsk(*_head(run), 0, run.seq.num_computed_tokens))
    name = f"prefill of {context} tokens"
    return [
        Figure(name, built[-1].num_bytes, "bytes", MOST_SYNC, note="newest rows, pooled maps, next token, norms"),
        Figure(f"{name}: head in view, on demand", len(encode(run, head)), "bytes"),
        *_times(name, built),
    ]


def decode(run: LiveRun, context: int, rounds: int) -> tuple[list[Figure], int]:
    """The answers to the `rounds` decode steps up to a context, each built once, right after its step as in the app."""
    setting.step_until(run, context - rounds)
    built = []
    while run.seq.num_computed_tokens < context:
        have = _has_all(run)
        run.step()
        newest = (len(run.records),)
        built.append(_build(run, replace(have, cursor=newest[0], details=newest, exact=ExactAsk(*_head(run)))))
    name, size = f"decode step, {context} tokens", built[-1].num_bytes
    return [Figure(name, size, "bytes"), *_times(name, built)], size


def first_sync(run: LiveRun, rounds: int) -> list[Figure]:
    """All that the browser needs when it knows nothing, as after a change of page: the look at one step, one head."""
    context, step = run.seq.num_computed_tokens, len(run.records)
    head = _head(run)
    everything = Selection(cursor=step, details=(step,), head=HeadAsk(*head, 0, context), exact=ExactAsk(*head))
    name = f"first sync, {context} tokens"
    built = [_build(run, everything) for _ in range(rounds)]
    how = f"after {step} steps, with one head"
    return [Figure(name, built[-1].num_bytes, "bytes", MOST_SYNC, note=how), *_times(name, built)]


def growth(step_bytes: dict[int, int]) -> list[Figure]:
    """How a decode step's bytes grow: bytes a further token between the last two contexts, against the first two."""
    (a, b), (c, d) = sorted(step_bytes)[:2], sorted(step_bytes)[-2:]
    early, late = (step_bytes[b] - step_bytes[a]) / (b - a), (step_bytes[d] - step_bytes[c]) / (d - c)
    how = f"{late:.0f} bytes a token from {c} to {d}, {early:.0f} from {a} to {b}"
    return [Figure("decode step, growth later : earlier", late / early, "x", MOST_GROWTH, note=how)]


@dataclass(frozen=True)
class Built:
    """One message: its bytes, the milliseconds to build it, and those of each part."""

    num_bytes: int
    ms: float
    part_ms: dict[str, float]


def _build(run: LiveRun, selection: Selection) -> Built:
    watched = Watched(run)
    start = time.perf_counter()
    message = encode(watched, selection)
    ms = (time.perf_counter() - start) * 1000
    return Built(len(message), ms, watched.ms | {"JSON and the rest": ms - sum(watched.ms.values())})


def _times(name: str, built: list[Built]) -> list[Figure]:
    whole = sorted(b.ms for b in built)
    medians = {part: statistics.median(b.part_ms[part] for b in built) for part in built[0].part_ms}
    return [
        Figure(f"{name}: to build", statistics.median(whole), "ms", p90=whole[int(0.9 * len(whole))]),
        *(Figure(f"{name}: {part}", ms, "ms") for part, ms in medians.items() if ms >= 0.005),
    ]


def _has_all(run: LiveRun) -> Selection:
    """What a browser sends that has everything up to here."""
    return Selection(
        cursor=len(run.records), have_meta=len(run.records), have_tokens=run.seq.num_tokens,
        have_kv=run.seq.num_computed_tokens,
    )


def _head(run: LiveRun) -> tuple[int, int]:
    assert run.info.default_head is not None  # chosen when the prompt was prefilled
    return run.info.default_head


if __name__ == "__main__":
    report.main("payload", __doc__ or "", measure, full=Size(), quick=QUICK)
