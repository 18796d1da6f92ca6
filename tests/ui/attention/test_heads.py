"""All heads and the knock-outs on the attention page, run in process; the run beside them is untouched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from miniinfer.config import SamplingParams
from miniinfer.trace.attention.head_kinds import KINDS
from tests.ui.app_test import App
from tests.ui.attention.page import LONG, attention, current, frames, numbers, plots, show, texts


def test_heads_are_measured_on_the_run_or_on_the_probe_and_a_click_chooses_one(app: App) -> None:
    attention(app, "All heads")
    assert "Too little repeats here" in texts(app)
    table = frames(app)[0]
    assert len(table) == 270
    assert table["previous token"].is_monotonic_decreasing
    assert table["induction"].isna().all()
    show(app, "All heads", heads_on="a text that repeats")
    table = frames(app)[0]
    assert {"induction", "first token", "previous token", "same token"} <= set(table["kind"])
    assert table["induction"].is_monotonic_decreasing
    best = (int(table["layer"][0]), int(table["head"][0]))
    assert app.test.session_state["attention_heads_order"][0] == best
    marks = plots(app)[0].data[0]
    assert len(numbers(marks.x)) == 270
    assert numbers(marks.marker.color).max() == pytest.approx(table["induction"][0], abs=1e-6)
    assert set(KINDS) <= set(table.columns)
    app.pick("attention_heads_map", {"x": 18, "y": 6})
    assert "Layer 18, head 6 reads" in texts(app)
    table, marked = frames(app)[0], app.test.session_state["attention_heads_table"]["selection"]["rows"]
    assert table.loc[marked, ["layer", "head"]].to_numpy().tolist() == [[18, 6]]
    app.select("attention_heads_table", rows=[3])
    layer, head = table.loc[3, ["layer", "head"]]
    assert f"Layer {layer}, head {head} reads" in texts(app)
    app.pick("attention_heads_map", {"x": 18, "y": 6})
    for wrong in ({"x": 99, "y": 0}, {"x": "2", "y": None}, {}, None, [1, 2], {"x": 2.5, "y": 1}, {"x": True, "y": -1}):
        app.pick("attention_heads_map", wrong)
        assert "Layer 18, head 6 reads" in texts(app), wrong


def test_a_table_that_has_not_seen_the_newer_mark_does_not_undo_it(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    attention(app, "All heads")
    older = list(app.test.session_state["attention_heads_table"]["selection"]["rows"])
    first = frames(app)[0].loc[older[0], ["layer", "head"]].tolist()
    app.pick("attention_heads_map", {"x": 18, "y": 6})
    app.pick("attention_heads_map", {"x": 18, "y": 7})
    app.select("attention_heads_table", rows=older)
    assert "Layer 18, head 7 reads" in texts(app)
    table, marked = frames(app)[0], app.test.session_state["attention_heads_table"]["selection"]["rows"]
    assert table.loc[marked, ["layer", "head"]].to_numpy().tolist() == [[18, 7]]
    monkeypatch.setattr("miniinfer.ui.attention.marked_table.SETTLED", 0.0)
    app.select("attention_heads_table", rows=older)
    assert f"Layer {first[0]}, head {first[1]} reads" in texts(app)


def test_a_knock_out_moves_the_next_token_and_leaves_the_run_bit_identical(app: App) -> None:
    attention(app, "Knock out", layer=12, head=0)
    run = current(app)

    def snapshot() -> tuple[Any, ...]:
        engine = run.engine
        engine.check()
        return (
            list(run.seq.token_ids), list(run.seq.block_table), engine.pool.num_used, list(engine.sequences),
            engine.kv_cache.data[:, :, :, run.seq.block_table].numpy().tobytes(), run.logits_at(6).numpy().tobytes(),
        )

    before = app.session.look([run], snapshot)
    for what in ("this head", "its KV group", "attention of the layer", "MLP of the layer", "whole layer"):
        for where in ("at this position only", "at every position"):
            show(app, "Knock out", what=what, where=where)
            assert "goes from" in texts(app)
    app.test.button(key="attention_each").click()
    app.run()
    assert len(plots(app)) == 2
    assert app.session.look([run], snapshot) == before
    show(app, "Knock out", what="this head", where="at this position only", movers_fold=True)
    bars = plots(app)[0].data
    movers = frames(app)[0]
    probs = app.session.look([run], lambda: run.logits_at(6).softmax(-1))
    np.testing.assert_allclose(sorted(numbers(bars[1].x), reverse=True)[:3], probs.topk(3).values.numpy(), atol=1e-6)
    np.testing.assert_allclose(100 * (movers["after"] - movers["before"]), movers["change (pp)"], atol=1e-4)
    assert len(app.session.timeline) == 1


def test_a_factor_of_one_moves_nothing(app: App) -> None:
    attention(app, "Knock out", layer=3, head=1, factor=1.0, movers_fold=True)
    assert "±0.0000 pp" in texts(app) or "0.0000 pp of the probability" in texts(app)
    assert abs(frames(app)[0]["change (pp)"]).max() < 1e-3


def test_every_position_of_a_long_text_is_computed_when_asked_for(app: App) -> None:
    app.session.new_run(LONG * 3, SamplingParams(max_new_tokens=4), chat=False, one_pass=True)
    attention(app, "Knock out", step=1, where="at every position")
    assert "once the positions are computed" in texts(app)
    app.test.button(key="attention_knock_compute").click()
    app.run()
    assert "goes from" in texts(app)


def test_a_head_that_the_model_does_not_have_is_none_of_the_errors(app: App) -> None:
    attention(app, layer=99, head=99)
    assert not app.test.exception
    assert "Layer 0, head 0" in texts(app)
