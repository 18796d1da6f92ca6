"""The batching page's message, tables and lanes against the trace they are made from."""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

import pytest

from miniinfer.figures.batching.message import NOBODY, encode_batch, measured_bytes, step_entry
from miniinfer.figures.batching.plots import lane_name, lanes_figure, outcome_line
from miniinfer.figures.batching.tables import (
    blocks_table,
    lanes_table,
    outcomes_table,
    requests_table,
    rows_table,
    timeline_table,
)
from miniinfer.figures.palette import LIGHT
from miniinfer.figures.payload import unpack
from miniinfer.trace.batch.outcome import outcome_of
from miniinfer.trace.batch.records import BatchTrace, LaneState
from miniinfer.trace.batch.tally import BatchTally
from miniinfer.trace.batch.view import requests_at, totals_at
from tests.trace.batch.runs import finished_run, request


def traces() -> dict[str, BatchTrace]:
    both = [request("a", 6), request("b", 2), request("d", 3, arrival=2)]
    return {
        "continuous": finished_run(*both, max_seqs=2).trace,
        "static": finished_run(*both, max_seqs=2, batching="static").trace,
        "tight": finished_run(request("a", 8), request("b", 8), block_size=2, num_blocks=11).trace,
    }


TRACES = traces()
every = pytest.mark.parametrize("trace", TRACES.values(), ids=TRACES)


def entries_of(trace: BatchTrace) -> list[dict[str, Any]]:
    tally = BatchTally(trace.requests, tuple(trace.refused), trace.block_bytes)
    return [step_entry(trace, step, tally.add(step)) for step in trace.steps]


@every
def test_the_message_holds_what_the_browser_lacks_and_the_blocks_as_they_were(trace: BatchTrace) -> None:
    entries = entries_of(trace)
    last = len(trace.steps)
    header, blobs = unpack(encode_batch(trace, "x.1", "name", entries, device="CPU", ask=3, have=2))
    assert [s["step"] for s in header["steps"]] == list(range(3, last + 1))
    assert set(blobs) == {f"blocks:{s}" for s in range(3, last + 1)}
    assert (header["ask"], header["last"], header["run"]["finished"]) == (3, last, True)
    for shown in header["steps"]:
        step = trace.steps[shown["step"] - 1]
        cells = blobs[f"blocks:{step.step}"]
        for b, owners in enumerate(step.blocks.owners):
            names = [trace.requests[r].request_id for r in shown["shared"].get(str(b), [cells[b, 0]] if owners else [])]
            assert tuple(names) == owners
            assert (cells[b, 0] == NOBODY) == (not owners)
        assert shown["tokens"] + shown["padding"] + shown["idle"] == step.num_tokens + step.wasted_slots
        totals = totals_at(trace, step.step)
        assert shown["totals"]["padding"] + shown["totals"]["idle"] == totals.wasted_slots
        assert [v[0] for v in shown["requests"]] == [v.ttft_ms for v in requests_at(trace, step.step)]
    assert json.dumps(entries)


@every
def test_tables_have_a_line_for_everything_and_the_same_sums(trace: BatchTrace) -> None:
    last = len(trace.steps)
    totals = totals_at(trace, last)
    timeline, rows = timeline_table(trace), rows_table(trace)
    assert len(timeline) == last
    assert timeline["new tokens"].sum() == totals.num_new_tokens
    assert rows["tokens"].sum() == totals.num_tokens
    assert rows["padding"].sum() == totals.wasted_slots
    assert len(requests_table(trace, last)) == len(trace.requests)
    assert len(blocks_table(trace, 1)) == len(trace.steps[0].blocks.owners)


@every
def test_lanes_of_an_outcome_cover_all_steps_and_count_every_slot(trace: BatchTrace) -> None:
    outcome = outcome_of(trace)
    for one in trace.requests:
        parts = [part for part in outcome.lanes if part.request_id == one.request_id]
        steps = [s for part in parts for s in range(part.first, part.last + 1)]
        assert steps == list(range(1, len(trace.steps) + 1))
        assert parts[-1].end_ms == pytest.approx(trace.steps[-1].end_ms)
        for a, b in itertools.pairwise(parts):
            assert a.end_ms == pytest.approx(b.start_ms)
    assert sum(part.slots for part in outcome.lanes) == outcome.computed_slots
    assert sum(part.wasted for part in outcome.lanes) == outcome.totals.wasted_slots


def test_the_figure_marks_the_longest_and_writes_names_as_text() -> None:
    static = outcome_of(TRACES["static"])
    assert static.longest == "a"
    assert lane_name(static, "a") == "a (longest)"
    assert lane_name(static, "b<i>") == "b&lt;i>"
    figure = lanes_figure(static, 1000.0, LIGHT, 300)
    idle = next(bar for bar in figure.data if bar.name == "idle, wasted")
    assert len(idle.x) > 0
    assert list(idle.x) == [p.end_ms - p.start_ms for p in static.lanes if p.state is LaneState.IDLE]
    assert f"{static.totals.wasted_slots} of {static.computed_slots} slots wasted" in outcome_line(static)


def test_the_table_of_outcomes_says_which_wastes_and_lanes_are_listed() -> None:
    found = [outcome_of(TRACES["static"]), outcome_of(TRACES["continuous"])]
    table = outcomes_table(found)
    assert list(table["batching"]) == ["static", "continuous"]
    assert table["wasted %"][0] > 0
    assert table["wasted %"][1] == 0
    assert list(table["new tokens"]) == [11, 11]
    assert len(lanes_table(found)) == sum(len(o.lanes) for o in found)


@every
def test_the_bytes_that_a_step_counts_are_about_those_that_it_takes(trace: BatchTrace) -> None:
    entries, seen = entries_of(trace), {id(trace.requests)}

    def size(value: Any) -> int:
        if id(value) in seen:
            return 0
        seen.add(id(value))
        own = sys.getsizeof(value)
        if isinstance(value, dict):
            return own + sum(size(key) + size(one) for key, one in value.items())
        if isinstance(value, list | tuple):
            return own + sum(map(size, value))
        return own + (size(vars(value)) if hasattr(value, "__dict__") else 0)

    taken = sum(size(step) + size(entry) for step, entry in zip(trace.steps, entries, strict=True))
    assert 0.6 < sum(map(measured_bytes, trace.steps)) / taken < 1.7
