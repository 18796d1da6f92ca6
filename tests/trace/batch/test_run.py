"""What a batch run records: lanes, rows, blocks, times, waste; and what it refuses."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from miniinfer.config import SamplingParams
from miniinfer.engine.sampler import coin
from miniinfer.errors import BadInputError
from miniinfer.trace.batch.alone import against_alone
from miniinfer.trace.batch.records import LaneState
from miniinfer.trace.batch.settings import BatchRequest, BatchSettings, draw_arrivals
from miniinfer.trace.batch.view import longest_request, request_at, requests_at, totals_at
from tests.trace.batch.runs import MODEL, PROMPTS, batch_run, consistent, finished_run, lanes, request
from tests.trace.live import token


def test_continuous_lanes_and_times() -> None:
    run = finished_run(request("a", 5), request("b", 3), request("d", 4, arrival=2), max_seqs=2)
    assert lanes(run) == {"a": "Pdddd", "b": "Pdd", "d": "..wPddd"}
    trace = run.trace
    consistent(trace)
    assert trace.finished
    d = request_at(trace, "d", len(trace.steps))
    assert (d.ttft_ms, d.tpot_ms) == (pytest.approx(20), pytest.approx(10)), "it waited one step of 10 ms for a place"
    assert (d.first_token_step, d.finished_step, d.finish_reason) == (4, 7, "length")
    assert trace.steps[2].waiting == ("d",)
    assert trace.steps[2].waits_for == "seqs"
    assert [step.arrived for step in trace.steps[:4]] == [("a", "b"), (), ("d",), ()]
    totals = totals_at(trace, len(trace.steps))
    assert (totals.steps, totals.num_new_tokens, totals.wasted_slots, totals.num_finished) == (7, 12, 0, 3)
    assert totals.tok_s == pytest.approx(12 / 0.1), "the first step came in four parts"
    assert longest_request(trace) == "a"


def test_looking_back_shows_what_was_known_then() -> None:
    run = finished_run(request("a", 5), request("b", 3), request("d", 4, arrival=2), max_seqs=2)
    trace = run.trace
    assert [len(request_at(trace, "a", step).output) for step in range(6)] == [0, 1, 2, 3, 4, 5]
    assert [request_at(trace, "d", step).state for step in range(5)] == [
        LaneState.PENDING, LaneState.PENDING, LaneState.PENDING, LaneState.WAITING, LaneState.PREFILL
    ]  # fmt: skip
    assert request_at(trace, "a", 1).tpot_ms is None
    assert request_at(trace, "a", 4).finish_reason is None
    assert totals_at(trace, 0).tok_s is None
    assert request_at(trace, "a", 0).state is LaneState.WAITING


def test_static_padding_and_idle_rows_are_counted() -> None:
    """Prompts of 14, 3, 5: 20 slots of padding in one step; b is done after 2 tokens, d after 3, a after 5."""
    run = finished_run(request("a", 5), request("b", 2), request("d", 3), batching="static", max_seqs=3)
    assert lanes(run) == {"a": "Pdddd", "b": "Pdiii", "d": "Pddii"}
    consistent(run.trace)
    assert [(s.padding_slots, s.idle_slots) for s in run.trace.steps] == [(20, 0), (0, 0), (0, 1), (0, 2), (0, 2)]
    assert totals_at(run.trace, 5).wasted_slots == 25
    assert run.engine.pool.num_used == 0
    wide = run.trace.steps[0]
    assert [row.num_tokens + row.num_padding for row in wide.rows] == [14, 14, 14]


def test_a_static_batch_keeps_its_blocks_until_it_ends() -> None:
    run = batch_run(request("a", 4), request("b", 1), batching="static")
    tables = []
    while run.step():
        tables.append(set(run.steps[-1].blocks.tables))
    assert tables == [{"a", "b"}] * 4
    assert run.engine.pool.num_used == 0


def test_preemption_is_recorded_and_what_it_costs() -> None:
    run = finished_run(request("a", 8), request("d", 12), request("b", 8), num_blocks=7, prefix_caching=False)
    trace = run.trace
    consistent(trace)
    preempted = [(step.step, name) for step in trace.steps for name in step.preempted]
    assert preempted
    step, name = preempted[0]
    view = request_at(trace, name, len(trace.steps))
    assert view.num_preemptions == sum(one == name for _, one in preempted)
    assert trace.steps[step - 1].states[name] is LaneState.PREEMPTED
    had = trace.steps[step - 2].row(name).context_len
    if view.num_preemptions == 1:
        assert view.num_recomputed == had, "everything that it had is computed again"
    for one in ("a", "d", "b"):
        assert against_alone(run, one).same


def test_prefix_hits_are_recorded() -> None:
    run = finished_run(request("a", 6), request("c", 3, arrival=2), request("d", 2, arrival=30))
    row = run.trace.steps[2].row("c")
    assert (row.num_cached, row.start, row.num_tokens) == (12, 12, 1)
    grid = run.trace.steps[2].blocks
    assert [grid.owners[b] for b in grid.tables["c"][:3]] == [("a", "c")] * 3
    assert grid.num_shared == 3
    assert {grid.kind(b) for b in grid.tables["c"][:3]} == {"shared"}
    late = run.trace.steps[30].blocks
    assert late.num_cached_free > 0
    assert {late.kind(b) for b in range(len(late.owners))} >= {"owned", "cached-free", "free"}
    assert all(late.filled[b] == 4 for b in range(len(late.owners)) if late.kind(b) == "cached-free")
    consistent(run.trace)


def test_waiting_for_the_next_arrival_takes_no_time() -> None:
    run = finished_run(request("b", 1), request("d", 1, arrival=4))
    assert lanes(run) == {"b": "P", "d": "....P"}
    assert [step.step_ms > 0 for step in run.trace.steps] == [True, False, False, False, True]
    assert request_at(run.trace, "d", 5).ttft_ms == pytest.approx(10)


def test_rows_say_how_their_token_was_drawn() -> None:
    run = finished_run(request("a", 4, temperature=1.3, top_p=0.8, seed=11), request("b", 4))
    rows = [step.row("a") for step in run.trace.steps]
    assert [row.coin for row in rows] == [coin(11, i) for i in range(4)]
    for row in rows:
        best = row.candidates[0]
        assert best.raw_prob == max(c.raw_prob for c in row.candidates)
        drawn = next(c for c in row.candidates if c.token == row.token)
        assert drawn.used_prob == pytest.approx(row.token_prob)
    greedy = run.trace.steps[1].row("b")
    assert (greedy.token_prob, greedy.candidates[0].used_prob) == (1.0, 1.0)
    assert greedy.margin == pytest.approx(
        np.log(greedy.candidates[0].raw_prob / greedy.candidates[1].raw_prob), abs=1e-4
    )


def test_the_snapshot_stays_as_it_is() -> None:
    run = batch_run()
    run.step()
    before = run.trace
    run.step()
    assert len(before.steps) == 1
    assert len(run.trace.steps) == 2
    with pytest.raises(ValueError, match="read-only"):
        run.steps[0].final_norm[0, 0] = 1


def test_stop_text_and_stop_ids_are_not_in_the_text() -> None:
    first = finished_run(request("b", 6))
    ids = [t.token_id for t in request_at(first.trace, "b", 6).output]
    cut = next(i for i in range(1, 6) if ids[i] not in ids[:i])
    by_id = finished_run(request("b", 9, stop_ids=(ids[cut],)))
    view = request_at(by_id.trace, "b", len(by_id.steps))
    assert (len(view.output), view.finish_reason) == (cut + 1, "stop")
    assert view.text == "x" * cut, "every token of these tests reads x"
    assert by_id.steps[-1].row("b").ends
    text = MODEL.token_bytes[ids[0]] + MODEL.token_bytes[ids[1]]
    by_text = finished_run(request("b", 9, stop=(text.decode(),)))
    view = request_at(by_text.trace, "b", len(by_text.steps))
    assert (len(view.output), view.finish_reason) == (2, "stop")


@pytest.mark.parametrize("batching", ["continuous", "static"])
def test_an_abort_at_any_moment(batching: str) -> None:
    for moment, name in itertools.product(range(6), "acd"):
        requests = request("a", 4), request("b", 5), request("c", 3, arrival=2), request("d", 1)
        run = batch_run(*requests, batching=batching)
        for _ in range(moment):
            run.step()
        over = request_at(run.trace, name, moment).finish_reason
        run.abort(name)
        run.abort(name)
        run.engine.check()
        view = request_at(run.trace, name, moment)
        assert view.finish_reason == (over or "abort")
        assert view.finished_step == moment or over
        while run.step():
            run.engine.check()
        assert run.engine.pool.num_used == 0
        assert over or request_at(run.trace, name, len(run.steps)).state is LaneState.FINISHED
        assert len(request_at(run.trace, "b", len(run.steps)).output) == 5
    with pytest.raises(BadInputError, match="no request 'nobody'"):
        run.abort("nobody")


def test_release_gives_everything_back() -> None:
    run = batch_run()
    run.step()
    run.release()
    assert run.engine.pool.num_used == 0
    assert not run.step()
    assert len(run.trace.steps) == 1


def test_a_request_that_cannot_fit_is_refused_by_name_and_the_others_go_on() -> None:
    prompts = {**PROMPTS, "empty": [], "vast": list(range(60)) * 2}
    requests = [request(name, 6) for name in ("b", "empty", "vast", "d")]
    run = batch_run(*requests, request("c", 30), prompts=prompts, num_blocks=8)
    assert list(run.refused) == ["empty", "vast", "c"]
    assert "Request 'empty' cannot run. The prompt has no tokens" in run.refused["empty"]
    assert "Request 'vast' cannot run. The prompt has 120 tokens, but the context holds 96" in run.refused["vast"]
    assert run.refused["c"] == (
        "Request 'c' cannot run. Its 42 positions can need 11 blocks, but the pool has 8: shorten its prompt or its "
        "output, or allow more blocks."
    )
    while run.step():
        pass
    views = {view.request_id: view for view in requests_at(run.trace, len(run.steps))}
    assert [views[name].finish_reason for name in ("b", "d", "c")] == ["length", "length", "abort"]
    assert views["c"].state is LaneState.REFUSED
    assert views["c"].error == run.refused["c"]
    nothing = batch_run(request("empty"), prompts=prompts)
    assert not nothing.step()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: BatchSettings(token_budget=-5), "The token budget must be a whole number above 0, not -5"),
        (lambda: BatchSettings(num_blocks=0), "The number of blocks must be a whole number above 0, not 0"),
        (lambda: BatchSettings(block_size=True), "The block size"),
        (lambda: BatchSettings(max_seqs=1.5), "The number of sequences"),
        (lambda: BatchSettings(policy="lifo"), "The policy must be one of fcfs, sjf, prefill-first, decode-first"),
        (lambda: BatchSettings(batching="both"), "continuous or static, not 'both'"),
        (lambda: batch_run(request("a"), request("a")), "The id 'a' stands for more than one request"),
        (lambda: BatchRequest(" ", "x"), "needs an id"),
        (lambda: BatchRequest("a", "x", arrival=-1), "The arrival of request 'a'"),
        (lambda: draw_arrivals(3, -1, 0), "mean gap"),
    ],
)
def test_bad_input_is_a_sentence(make, says: str) -> None:
    with pytest.raises(BadInputError, match=says):
        make()


def test_an_empty_list_is_a_sentence() -> None:
    from miniinfer.trace.batch.run import BatchRun

    with pytest.raises(BadInputError, match="There is no request to run: add at least one"):
        BatchRun(MODEL, [], encode=lambda r: [1], describe=token)


def test_arrivals_are_drawn_from_a_seed() -> None:
    drawn = draw_arrivals(200, 3, 7)
    assert drawn == draw_arrivals(200, 3, 7) != draw_arrivals(200, 3, 8)
    assert drawn[0] == 0
    assert list(drawn) == sorted(drawn)
    assert drawn[-1] / 199 == pytest.approx(3, rel=0.3)
    assert draw_arrivals(3, 0, 1) == (0, 0, 0)


def test_a_request_that_cannot_draw_ends_alone() -> None:
    """SMP-02: penalties that leave nothing finite end this one request; the others do not notice."""
    run = finished_run(request("a", 4, repetition_penalty=1e-300), request("b", 4))
    a, b = requests_at(run.trace, len(run.steps))
    assert (a.finish_reason, b.finish_reason, len(b.output)) == ("abort", "length", 4)
    assert "no token can be drawn" in a.error
    assert against_alone(run, "b").same


def test_no_new_tokens_is_a_prefill_alone() -> None:
    run = finished_run(request("a", 0), request("b", 2))
    assert lanes(run) == {"a": "P", "b": "Pd"}
    assert request_at(run.trace, "a", 2).ttft_ms is None
    assert SamplingParams().max_new_tokens > 0
