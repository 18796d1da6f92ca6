"""A batch run on the tiny model, for tests of records."""

from __future__ import annotations

from miniinfer.config import SamplingParams
from miniinfer.trace.batch.run import BatchRun
from miniinfer.trace.batch.settings import BatchRequest, BatchSettings
from tests.engine.tiny import TinyModel, tiny_model
from tests.trace.live import token

MODEL = tiny_model()
HEAD = list(range(20, 32))
PROMPTS = {"a": [*HEAD, 5, 17], "b": [1, 2, 3], "c": [*HEAD, 60], "d": [33, 8, 9, 41, 7]}


def request(name: str, new: int = 6, arrival: int = 0, **sampling: object) -> BatchRequest:
    options = {"temperature": 0, "max_new_tokens": new, **sampling}
    return BatchRequest(name, name, SamplingParams(**options), arrival)  # type: ignore[arg-type]


def batch_run(
    *requests: BatchRequest, model: TinyModel = MODEL, prompts: dict[str, list[int]] = PROMPTS, **settings: object
) -> BatchRun:
    """Nothing has been stepped yet; without requests, one of each prompt."""
    chosen = requests or tuple(request(name, arrival=2 * (name == "c")) for name in prompts)
    options = BatchSettings(**{"block_size": 4, **settings})  # type: ignore[arg-type]
    return BatchRun(model, chosen, options, encode=lambda r: prompts[r.request_id], describe=token, clock=Clock())


def finished_run(*requests: BatchRequest, **settings: object) -> BatchRun:
    run = batch_run(*requests, **settings)  # type: ignore[arg-type]
    while run.step():
        run.engine.check()
    return run


class Clock:
    """Every look at it is a hundredth of a second after the last one: a step takes 10 ms."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.01
        return self.now


def lanes(run: BatchRun) -> dict[str, str]:
    """One letter a step: . pending, w waiting, P prefill, d decode, s stalled, x preempted, i idle, ' ' finished."""
    letters = {
        "pending": ".", "waiting": "w", "prefill": "P", "decode": "d", "stalled": "s", "preempted": "x", "idle": "i",
        "finished": " ", "refused": "r",
    }  # fmt: skip
    trace = run.trace
    return {
        r.request_id: "".join(letters[step.states[r.request_id]] for step in trace.steps).rstrip()
        for r in trace.requests
    }
