"""What recording costs: a decode step with everything recorded against one without, and the bytes of a trace."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench import report, setting
from bench.report import Figure
from miniinfer.measure.timing import compare_ms
from miniinfer.models.loader import LoadedModel

MOST_RATIO = 1.15
MOST_BYTES = 100_000_000
TRACE_TOKENS = 500  # positions; the bar of the bytes is meant for this many


@dataclass(frozen=True)
class Size:
    contexts: tuple[int, ...] = (64, 256)
    rounds: int = 60
    trace_tokens: int = TRACE_TOKENS
    trace_prompt: int = 100  # of them in the prompt


QUICK = Size(rounds=8, trace_prompt=480)


def measure(size: Size, model: LoadedModel | None = None) -> list[Figure]:
    """All figures of this bench."""
    loaded = model or setting.load()

    def all_figures() -> list[Figure]:
        figures = [figure for context in size.contexts for figure in step_times(loaded, context, size.rounds)]
        return figures + trace_bytes(loaded, size.trace_tokens, size.trace_prompt)

    return setting.in_engine_thread(all_figures)


def step_times(model: LoadedModel, context: int, rounds: int) -> list[Figure]:
    """A control without a recorder runs beside the two, in the same rounds: what it shows against its twin is noise."""
    start = setting.middle(context, rounds)
    plain, control = setting.Decoding(model, [start]), setting.Decoding(model, [start])
    run = setting.step_until(setting.live_run(model, start), start)
    times = compare_ms(
        {"plain": plain.step, "control": control.step, "recorded": run.step}, rounds=rounds, warm_up=setting.WARM_UP
    )
    without, recorded = times["plain"], times["recorded"]
    ms = f"decode step, {context} tokens"
    noise = f"paired by round; a control without recording: {times['control'].ratio:.3f}"
    return [
        Figure(f"{ms}, without", without.median_ms, "ms", p90=without.p90_ms),
        Figure(f"{ms}, everything recorded", recorded.median_ms, "ms", p90=recorded.p90_ms),
        Figure(f"{ms}, recorded : without", recorded.ratio, "x", MOST_RATIO, note=noise),
    ]


def trace_bytes(model: LoadedModel, tokens: int, prompt_length: int) -> list[Figure]:
    """The arrays of a trace by kind, and all memory that Python, numpy and, for those arrays, torch took on the way."""
    setting.step_until(setting.live_run(model, 2), 4)  # imports and tables that are made once belong to no trace
    run = setting.live_run(model, prompt_length)
    gc.collect()
    tracemalloc.start()
    try:
        setting.step_until(run, tokens)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    parts = [record.sequences[0] for record in run.records]
    bar = MOST_BYTES if tokens == TRACE_TOKENS else None
    kept: dict[str, list[np.ndarray[Any, Any]]] = {
        "q": [p.q for p in parts if p.q is not None],
        "final_norm": [p.final_norm for p in parts],
        "norms of K and V": [p.kv_norms for p in parts],
        "pooled maps of the prompt": [p.pooled.maps for p in parts if p.pooled is not None],
    }
    by_kind = {kind: sum(array.nbytes for array in of_kind) for kind, of_kind in kept.items()}
    arrays = sum(by_kind.values())
    taken += sum(array.nbytes for of_kind in kept.values() for array in of_kind if not _is_numpys(array))
    name = f"trace of {tokens} tokens"
    how = f"{prompt_length} of them prompt; arrays {arrays:,}, Python objects {taken - arrays:,}"
    return [
        Figure(name, taken, "bytes", bar, note=how),
        *(Figure(f"{name}: {kind}", size, "bytes") for kind, size in by_kind.items()),
    ]


def _is_numpys(array: np.ndarray[Any, Any]) -> bool:
    """False if its memory is a tensor's, which tracemalloc does not see."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base is None


if __name__ == "__main__":
    report.main("recording", __doc__ or "", measure, full=Size(), quick=QUICK)
