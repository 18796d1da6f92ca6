"""A batch run on the tiny model, for tests of records."""

from __future__ import annotations

import pytest

from miniinfer.config import SamplingParams
from miniinfer.trace.batch.records import BatchTrace
from miniinfer.trace.batch.run import BatchRun
from miniinfer.trace.batch.settings import BatchRequest, BatchSettings
from miniinfer.trace.batch.view import requests_at
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
    """Every look at it is a hundredth of a second after the last one: a step, or a part of a long one, takes 10 ms."""

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


def consistent(trace: BatchTrace) -> None:
    """What holds for every step of every run."""
    end_ms = 0.0
    for number, step in enumerate(trace.steps, start=1):
        assert step.step == number
        end_ms += step.step_ms
        assert step.end_ms == pytest.approx(end_ms)
        assert step.num_tokens + step.wasted_slots <= step.budget
        assert len(step.final_norm) == step.num_new_tokens
        assert set(step.states) == {r.request_id for r in trace.requests}
        assert set(step.waiting).isdisjoint(row.request_id for row in step.rows)
        for row in step.rows:
            assert step.states[row.request_id] == row.phase
            assert row.context_len == row.start + row.num_tokens
            assert -(-row.context_len // trace.settings.block_size) <= len(step.blocks.tables[row.request_id])
            if row.token is not None:
                shown = [c.token.token_id for c in row.candidates]
                assert row.token.token_id in shown
                assert len(set(shown)) == 5
                assert sum(c.raw_prob for c in row.candidates) <= 1 + 1e-6
        counted = {name: sum(name in owners for owners in step.blocks.owners) for name in step.blocks.tables}
        assert counted == {name: len(table) for name, table in step.blocks.tables.items()}
    for view in requests_at(trace, len(trace.steps)):
        assert view.request_id in trace.refused or len(view.output) == sum(
            step.row(view.request_id) is not None and step.row(view.request_id).token is not None
            for step in trace.steps
        )
