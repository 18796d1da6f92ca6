"""The sums that are kept from step to step are those that are worked out of all steps."""

from __future__ import annotations

import pytest

from miniinfer.trace.batch.run import BatchRun
from miniinfer.trace.batch.tally import BatchTally
from miniinfer.trace.batch.view import requests_at, totals_at
from tests.trace.batch.runs import batch_run, finished_run, request

RUNS = {
    "late": lambda: finished_run(request("a", 6), request("b", 2, arrival=1), request("d", 3, arrival=9)),
    "static": lambda: finished_run(request("a", 6), request("b", 2), request("c", 3), max_seqs=2, batching="static"),
    "preempted": lambda: finished_run(request("a", 8), request("b", 8), block_size=2, num_blocks=11),
    "shared": lambda: finished_run(request("a", 4), request("c", 4, arrival=2)),
    "refused": lambda: finished_run(request("a", 40), request("b", 3), num_blocks=4),
}  # fmt: skip


def check(run: BatchRun) -> None:
    trace = run.trace
    tally = BatchTally(trace.requests, tuple(trace.refused), trace.block_bytes)
    for step in trace.steps:
        sums = tally.add(step)
        assert sums.totals == totals_at(trace, step.step)
        for kept, view in zip(sums.requests, requests_at(trace, step.step), strict=True):
            assert kept.ttft_ms == view.ttft_ms
            assert kept.tpot_ms == pytest.approx(view.tpot_ms)
            assert (kept.num_outputs, kept.num_preemptions) == (len(view.output), view.num_preemptions)
            assert (kept.num_cached, kept.num_recomputed) == (view.num_cached, view.num_recomputed)
            if view.request_id not in trace.aborted:  # who ended it by hand stands in the trace, not in its steps
                assert kept.finish_reason == view.finish_reason


@pytest.mark.parametrize("name", RUNS)
def test_kept_sums_are_those_of_all_steps(name: str) -> None:
    check(RUNS[name]())


def test_after_an_abort_too() -> None:
    run = batch_run(request("a", 6), request("b", 6, arrival=1))
    run.step()
    run.abort("a")
    while run.step():
        pass
    check(run)
