"""The matrix that is drawn is the tensor: every number at its place, whichever head or row was chosen."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from miniinfer.trace.inside import views as inside_views
from miniinfer.trace.inside.fields import KEYS_NAME
from miniinfer.trace.inside.inside import StepInside
from miniinfer.trace.inside.records import TensorView
from tests.trace.live import live_run

PLACES = {"embed": 3, "attn_norm": 4, "qkv_proj": 5, "write_kv": 7, "attn_scores": 8, "attn_pattern": 9, "attn_mix": 10}


@pytest.fixture
def inside() -> Iterator[StepInside]:
    run = live_run()
    run.step()
    inside = StepInside(run, 1)
    yield inside
    inside.close()


def view(inside: StepInside, stage: str, name: str, head: int | None = None, row: int | None = None) -> TensorView:
    inside.goto(PLACES[stage])
    return inside.view("writes", name, head, row)


def equal(view: TensorView, tensor: torch.Tensor) -> bool:
    return view.values.shape == tuple(tensor.shape) and bool((view.values == tensor.numpy()).all())


def test_a_residual_vector_is_a_row(inside: StepInside) -> None:
    found = view(inside, "embed", "resid_pre")
    assert equal(found, inside.state.resid_pre)
    assert (found.letters, found.row_unit, found.row_start, found.column_unit) == ("T E", "position", 0, "E")
    one = view(inside, "embed", "resid_pre", row=4)
    assert equal(one, inside.state.resid_pre[4:5])
    assert (one.row_start, one.part) == (4, "position 4")


def test_heads_are_chosen_or_stand_side_by_side(inside: StepInside) -> None:
    found = view(inside, "qkv_proj", "q", head=7)
    assert equal(found, inside.state.q[:, 7])
    assert found.part == "head 7"
    assert equal(view(inside, "qkv_proj", "q"), inside.state.q.flatten(1))
    assert equal(view(inside, "qkv_proj", "k", head=1, row=3), inside.state.k[3:4, 1])
    every = view(inside, "qkv_proj", "q", row=2)
    assert equal(every, inside.state.q[2])
    assert (every.row_unit, every.column_unit) == ("head", "D")


def test_attention_is_a_map_of_one_head_or_the_row_of_all(inside: StepInside) -> None:
    found = view(inside, "attn_pattern", "attn_pattern", head=6)
    pattern = inside.state.attn_pattern[0]  # [K, S, G, Tq, C]
    assert equal(found, pattern[1, 0, 1])  # G = 5: head 6 is group 1, place 1
    assert (found.row_unit, found.column_unit) == ("position", "key position")
    rows = view(inside, "attn_pattern", "attn_pattern", row=4)
    assert equal(rows, pattern[:, 0, :, 4].flatten(0, 1))
    assert rows.row_unit == "head"
    scores = view(inside, "attn_scores", "attn_scores", head=0)
    assert scores.hidden
    assert np.isneginf(scores.values[0, 1:]).all()


def test_the_cache_is_read_by_head(inside: StepInside) -> None:
    found = view(inside, "write_kv", KEYS_NAME, head=1)
    assert equal(found, inside.state.k[:, 1])
    assert equal(view(inside, "write_kv", KEYS_NAME), inside.state.k.flatten(1))


def test_numbers_that_are_no_matrix_are_one_row(inside: StepInside) -> None:
    assert view(inside, "write_kv", "slot_mapping").values.tolist() == [inside.state.slot_mapping.tolist()]
    inside.goto(2)
    assert inside.view("writes", "sample_rows", None, None).values.tolist() == [[6]]
    cos = inside.view("writes", "rope_cos", None, None)
    assert equal(cos, inside.state.rope_cos[:, 0])
    inside.goto(46)
    assert inside.view("writes", "token_ids", None, None).values.tolist() == [list(map(float, inside.state.token_ids))]


def test_a_large_matrix_is_cut_to_its_last_rows_and_says_so(
    inside: StepInside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inside_views, "MOST_BYTES", 3 * 28 * 4)
    found = view(inside, "embed", "resid_pre")
    assert equal(found, inside.state.resid_pre[-3:])
    assert (found.row_start, found.part) == (4, "the last 3 rows")


def test_facts_are_those_of_the_whole_tensor(inside: StepInside) -> None:
    inside.goto(5)
    facts = inside.look().field("writes", "q").facts  # type: ignore[union-attr]
    q = inside.state.q
    assert facts is not None
    assert (facts.letters, facts.shape, facts.dtype, facts.count) == ("T H D", (7, 10, 8), "float32", 560)
    assert facts.norm == pytest.approx(float(q.norm()), rel=1e-6)
    assert (facts.smallest, facts.largest) == (float(q.min()), float(q.max()))
    assert facts.mean == pytest.approx(float(q.mean()), abs=1e-6)


def test_fields_that_are_no_tensors_are_said_in_words(inside: StepInside) -> None:
    inside.goto(1)
    look = inside.look()
    assert look is not None
    assert look.field("writes", "scheduled").text == "tokens 0 to 6"  # type: ignore[union-attr]
    assert look.field("writes", "preempted").text == "nothing"  # type: ignore[union-attr]
    for pc, read in ((4, ["resid_pre"]), (15, ["resid_post"])):  # attn_norm: only layer 0 has no layer before it
        inside.goto(pc)
        assert [f.name for f in inside.look().fields if f.role == "reads"] == read  # type: ignore[union-attr]
    inside.goto(47)
    look = inside.look()
    assert look is not None
    assert look.field("reads", "sequences").text == "7 tokens, 0 computed, 2 blocks"  # type: ignore[union-attr]
    assert look.field("writes", "sequences").text == "8 tokens, 7 computed, 2 blocks"  # type: ignore[union-attr]
