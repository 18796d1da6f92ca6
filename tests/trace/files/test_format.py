"""A run file gives the same panels as its run, also a long one. What strangers put into one: test_hostile_files.py."""

import dataclasses

import numpy as np
import pytest

from miniinfer.config import REAL_BACKENDS, SamplingParams
from miniinfer.errors import BadInputError
from miniinfer.figures.offline_page import offline_page
from miniinfer.figures.payload import unpack
from miniinfer.figures.workspace import HeadAsk, Selection, encode
from miniinfer.trace.files.format import MEMBERS, load_trace, read_trace, save_trace, trace_bytes
from miniinfer.trace.files.recorded_run import Origin
from miniinfer.trace.files.recording import record, recorded_copy
from miniinfer.trace.run import ForceToken
from tests.trace.files.recorded import make_run
from tests.trace.live import finished_run, live_run


def everything(run):
    steps = tuple(meta.step for meta in run.steps)
    return unpack(encode(run, Selection(cursor=3, details=steps, head=HeadAsk(0, 0, 0, 99), row=2, probs_from=0)))


def same(a, b, but=()):
    assert {k: v for k, v in a[0].items() if k not in but} == {k: v for k, v in b[0].items() if k not in but}
    assert a[1].keys() == b[1].keys()
    for name in a[1]:
        np.testing.assert_array_equal(a[1][name], b[1][name])


def test_round_trip_gives_the_same_panels(tmp_path):
    run = make_run(prompt=30, decoded=4)
    save_trace(run, tmp_path / "a.npz")
    back = load_trace(tmp_path / "a.npz")
    asked = Selection(cursor=3, details=(1, 3), head=HeadAsk(2, 1, 0, 99), row=7, probs_from=0)
    assert encode(back, asked) == encode(run, asked)


@pytest.mark.parametrize("backend", REAL_BACKENDS)
def test_a_file_says_what_computed_its_run(backend, tmp_path):
    run = make_run()
    run = dataclasses.replace(run, info=dataclasses.replace(run.info, backend=backend))
    save_trace(run, tmp_path / "a.npz")
    assert load_trace(tmp_path / "a.npz").info.backend == backend


@pytest.mark.parametrize("chunk", [None, 3])
def test_a_live_run_and_its_file_show_the_same(chunk):
    run = finished_run(chunk=chunk)
    back = read_trace(trace_bytes(recorded_copy(run, Origin("test 1", "2026-01-01T00:00:00Z"))), "a.npz")
    live, recorded = everything(run), everything(back)
    assert {live[0]["run"].pop("kind"), recorded[0]["run"].pop("kind")} == {"live", "recorded"}
    same(live, recorded, but={"source"})
    assert set(recorded[0]["source"].values()) == {"recorded"}
    assert back.origin == Origin("test 1", "2026-01-01T00:00:00Z", "live", 0)
    assert back.complete
    assert (back.settings, set(back.step_settings)) == ((run.info.params,), {0})


def test_a_branch_says_where_it_left_with_which_token_and_settings():
    run = finished_run(params=SamplingParams(temperature=1.2, top_k=2, max_new_tokens=6, seed=3))
    outside = next(i for i in range(90) if i not in [t.token_id for t in run.next_token(2).tokens])
    branch = run.fork(ForceToken(2, outside), "r2", "elsewhere")
    branch.step()
    back = read_trace(trace_bytes(recorded_copy(branch)), "a.npz")
    assert back.info.edit == ForceToken(2, outside)
    assert back.steps[1].forced
    assert back.steps[1].logprob == float("-inf")
    assert [m.token_id for m in back.steps] == [m.token_id for m in branch.steps]


def test_a_run_in_the_middle_of_its_prompt_or_before_its_first_step_comes_back():
    run = live_run(chunk=2)
    for steps in range(3):
        assert len(read_trace(trace_bytes(recorded_copy(run)), "a.npz").steps) == steps
        run.step()


def test_a_run_that_goes_on_meanwhile_is_recorded_as_it_stood():
    run = live_run()
    run.step()
    run.step()
    making = record(run, Origin())
    next(making)
    run.step()
    recorded = list(making)[-1].run
    assert recorded is not None
    assert len(recorded.steps) == 2
    read_trace(trace_bytes(recorded), "a.npz")


def test_of_a_long_run_the_rows_are_chosen_and_what_is_missing_is_said():
    run = finished_run(prompt=list(range(5, 35)))
    heads = run.info.model.num_layers * run.info.model.num_heads
    length = run.steps[-1].context_len
    small = recorded_copy(run, row_bytes=heads * (length + length - 1 + length - 2))
    back = read_trace(trace_bytes(small), "a.npz")
    assert [i for i, rows in enumerate(back.pattern) if rows is not None] == [length - 3, length - 2, length - 1]
    assert len(trace_bytes(small)) < len(trace_bytes(recorded_copy(run)))
    assert back.head == run.info.default_head
    assert not back.complete
    layer, head = run.info.default_head
    np.testing.assert_array_equal(back.head_rows(layer, head, 0, length), run.head_rows(layer, head, 0, length))
    np.testing.assert_array_equal(back.head_map(layer, head, 4), run.head_map(layer, head, 4))
    np.testing.assert_array_equal(back.pooled_maps(1).maps, run.pooled_maps(1).maps)
    other = (layer, (head + 1) % run.info.model.num_heads)
    with pytest.raises(BadInputError, match="keeps the whole pattern of layer"):
        back.head_rows(*other, 0, length)
    header, blobs = unpack(encode(back, Selection(details=(2, len(back.steps)))))
    assert header["details"]["2"]["no_rows"]
    assert "rows:2" not in blobs
    assert f"rows:{len(back.steps)}" in blobs
    again = read_trace(trace_bytes(recorded_copy(back)), "b.npz")
    same(everything_of_one_head(back), everything_of_one_head(again))


def everything_of_one_head(run):
    steps = tuple(meta.step for meta in run.steps)
    return unpack(encode(run, Selection(details=steps, head=HeadAsk(*run.head, 0, 99), probs_from=0)))


def test_a_recording_without_any_row_is_a_page_all_the_same():
    bare = dataclasses.replace(make_run(), pattern=[None] * 8, head=None)
    back = read_trace(trace_bytes(bare), "a.npz")
    assert "kept no row" in offline_page(back, 1)


def test_a_run_whose_file_could_not_be_opened_again_is_refused_or_loses_one_heads_rows(monkeypatch):
    run = finished_run(prompt=list(range(5, 35)))
    small = recorded_copy(run, row_bytes=1000)
    monkeypatch.setitem(MEMBERS, "head", 200)
    back = read_trace(trace_bytes(small), "a.npz")
    assert (back.head, back.head_pattern) == (None, ())
    monkeypatch.setitem(MEMBERS, "norms", 200)
    with pytest.raises(BadInputError, match="too long for a run file"):
        trace_bytes(small)
