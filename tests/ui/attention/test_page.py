"""The attention page, run in process: each view, its numbers against the engine's."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import torch

from miniinfer.config import SamplingParams
from miniinfer.engine.lookup import pattern_rows
from tests.ui.app_test import MARKUP, App
from tests.ui.attention.page import HOSTILE, LONG, VIEWS, attention, current, frames, move, numbers, plots, show, texts


@pytest.mark.parametrize(
    ("view", "folds"),
    [("Scores to weights", ["cells"]), ("Value mix", ["added"]), ("RoPE", ["rotation", "distance"]),
     ("All heads", []), ("Knock out", ["movers", "each"])],
)  # fmt: skip
def test_each_view_has_at_most_two_figures_each_with_its_table(app: App, view: str, folds: list[str]) -> None:
    assert view in VIEWS
    attention(app, view)
    assert 1 <= len(plots(app)) <= 2
    closed = len(frames(app))
    show(app, view, **{f"{name}_fold": True for name in folds})
    assert len(frames(app)) == closed + len(folds) >= len(plots(app))
    assert not app.test.exception


def test_the_pictures_and_the_row_equal_what_a_step_computed(app: App) -> None:
    attention(app, layer=4, head=7)
    run = current(app)
    seen: dict[str, torch.Tensor] = {}

    def watch(stage: Any, state: Any) -> None:
        if stage.layer == 4 and stage.name == "attn_scores":
            seen["scores"] = state.attn_scores[0][:, 0].flatten(0, 1)[7].clone()
        if stage.layer == 4 and stage.name == "attn_pattern":
            seen["pattern"] = pattern_rows(state, 0)[7].clone()

    def again() -> None:
        ids = run.seq.token_ids[: run.seq.num_computed_tokens]
        seq = run.engine.add_request(ids, SamplingParams(temperature=0, max_new_tokens=0))
        run.engine.step(watch, only=seq)
        run.engine.release(seq)

    app.session.look([run], again)
    products, scaled, masked, weights = (numbers(trace.z) for trace in plots(app)[0].data)
    scores = seen["scores"].numpy()
    visible = np.isfinite(scores)
    np.testing.assert_allclose(np.where(visible, masked, 0), np.where(visible, scores, 0), atol=1e-4)
    assert np.array_equal(np.isnan(masked), ~visible)
    np.testing.assert_allclose(np.square(weights), seen["pattern"].numpy(), atol=1e-5)
    np.testing.assert_allclose(products / 8, scaled, rtol=1e-6)
    row = frames(app)[0]
    np.testing.assert_allclose(row["q·k"] / 8, row["÷ √D"], rtol=1e-6)
    np.testing.assert_allclose(row["weight"], seen["pattern"][-1].numpy(), atol=1e-5)
    np.testing.assert_allclose(row["exp(s − max)"] / row["exp(s − max)"].sum(), row["weight"], atol=1e-6)
    exact = app.session.look([run], lambda: run.exact_row(4, 7, len(row) - 1))
    assert np.array_equal(row["weight"].to_numpy(np.float32), exact), "the newest row was computed alone: bit-equal"


def test_the_page_stands_on_the_cursor_and_an_earlier_query_shows_its_mask(app: App) -> None:
    attention(app)
    run = current(app)
    assert "at 6:" in texts(app)
    move(app, run=run.info.run_id, want=2, cursor=2)
    assert "at 5:" in texts(app)
    show(app, "Scores to weights", position=2)
    row = frames(app)[0]
    assert row["masked"].tolist()[:3] == row["÷ √D"].tolist()[:3]
    assert row["masked"].tolist()[3:] == [-math.inf] * 3
    assert row["weight"].tolist()[3:] == [0.0] * 3
    move(app, run=run.info.run_id, cursor=0)
    assert "Nothing has gone through the model yet" in texts(app)


def test_a_move_of_the_cursor_draws_the_body_and_leaves_the_rest(app: App) -> None:
    attention(app)
    run = current(app)
    app.ask("transport", run=run.info.run_id, cursor=2)
    assert app.only_fragments
    assert any("at 5:" in text for text in app.sent_texts)
    assert app.transport["cursor"] == 2
    app.open("break_it")
    app.ask("transport", run=run.info.run_id, cursor=1)
    assert app.only_fragments
    assert app.sent_texts == [], "nothing on that page depends on the cursor"
    app.open("model")
    app.ask("transport", run=run.info.run_id, cursor=3)
    assert not app.only_fragments, "a page that does not say so is drawn anew"


def test_the_first_token_can_be_hidden_and_no_number_changes(app: App) -> None:
    attention(app)
    before = frames(app)[0]
    show(app, "Scores to weights", hide_first=True)
    after = frames(app)[0]
    pd.testing.assert_frame_equal(after.reset_index(drop=True), before.iloc[1:].reset_index(drop=True))
    assert np.isnan(numbers(plots(app)[0].data[3].z)[:, 0]).all()
    assert "so that the weight adds little" in texts(app)
    assert "Here: the first token's value has the length" in texts(app)


def test_the_mix_adds_up_to_z(app: App) -> None:
    attention(app, "Value mix", layer=9, head=2, added_fold=True)
    [mix, added] = plots(app)
    lines = numbers(mix.data[0].z)
    np.testing.assert_allclose(lines[:-1].sum(0), lines[-1], atol=1e-5)
    table, heads = frames(app)
    assert table["share of z"].sum() == pytest.approx(1, abs=1e-4)
    assert table["weight"].sum() == pytest.approx(1, abs=1e-4)
    np.testing.assert_allclose(np.linalg.norm(lines[-1]), heads["length of z"][2], rtol=1e-5)
    assert len(numbers(added.data[0].y)) == 9


def test_rope_turns_by_position_times_frequency(app: App) -> None:
    attention(app, "RoPE", position=5, key=2, rotation_fold=True)
    table = frames(app)[0]
    np.testing.assert_allclose(table["q turned (rad)"], 5 * table["radians a position"], rtol=1e-6)
    np.testing.assert_allclose(table["k turned (rad)"], 2 * table["radians a position"], rtol=1e-6)
    assert "3 apart" in texts(app)
    products = table["gives to q·k"].sum()
    show(app, "Scores to weights")
    assert frames(app)[0]["q·k"][2] == pytest.approx(products, abs=1e-3)


def test_a_long_text_comes_as_a_window_or_pooled_and_never_as_its_square(app: App) -> None:
    app.session.new_run(LONG, SamplingParams(max_new_tokens=4), chat=False, one_pass=True)
    attention(app, step=1)
    length = current(app).seq.num_computed_tokens
    assert length > 90
    assert numbers(plots(app)[0].data[0].z).shape == (48, 48)
    assert f"of {length:,}" in "".join(c.value for c in app.test.caption)
    show(app, "Scores to weights", keys_fold=True)
    strongest, row = frames(app)
    assert len(row) == length
    assert row["weight"].is_monotonic_decreasing
    assert row["weight"].sum() == pytest.approx(1, abs=1e-4)
    pd.testing.assert_frame_equal(strongest, row.head(len(strongest)))
    show(app, "Scores to weights", range="whole, pooled")
    assert max(numbers(plots(app)[0].data[0].z).shape) <= 48
    show(app, "Scores to weights", range="window", position=10)
    assert numbers(plots(app)[0].data[0].z).shape == (48, 48)
    assert sum(len(json.dumps(message)) for message in app.figures.values()) < 400_000


def test_a_key_that_was_chosen_in_the_row_stays_chosen_when_the_row_is_sorted_anew(app: App) -> None:
    app.session.new_run(LONG, SamplingParams(max_new_tokens=8), chat=False, one_pass=True)
    attention(app, step=1)
    key = int(frames(app)[0]["key"][2])
    app.select("attention_row_table", rows=[2])
    assert app.test.session_state["attention_key"] == key
    for step in (2, 3, 4):
        app.session.step_to(step, math.inf)
        app.run()
        keys = frames(app)[0]["key"].tolist()
        assert app.test.session_state["attention_key"] == key
        marked = app.test.session_state["attention_row_table"]["selection"]["rows"]
        assert marked == ([keys.index(key)] if key in keys else [])
    show(app, "RoPE")
    assert app.test.number_input(key="attention_key").value == key


def test_a_query_stays_where_it_was_chosen_until_the_cursor_is_before_it(app: App) -> None:
    attention(app, position=6)
    run = current(app)
    move(app, run=run.info.run_id, want=4, cursor=4)
    assert "at 6:" in texts(app)
    app.test.number_input(key="attention_position").set_value(3)
    app.run()
    move(app, run=run.info.run_id, want=5, cursor=5)
    assert "at 3:" in texts(app)
    app.test.number_input(key="attention_position").set_value(8)
    app.run()
    move(app, run=run.info.run_id, cursor=1)
    assert "at 4:" in texts(app)
    assert not app.test.exception


def test_hostile_texts_are_never_markup(app: App) -> None:
    app.session.new_run(HOSTILE, SamplingParams(max_new_tokens=4), chat=False, one_pass=True)
    attention(app, step=1)
    for view in VIEWS:
        show(app, view)
        for kind in MARKUP:
            for element in app.test.get(kind):
                assert "img" not in str(element.value), (view, kind)
        for message in app.figures.values():
            assert "<img" not in json.dumps(message)


def test_a_recorded_run_shows_its_8_bit_rows_and_says_what_is_missing(open_app: Callable[..., App], gate: Any) -> None:
    app = open_app(gate.host).open_first("attention")
    assert "holds the weights after softmax only" in texts(app)
    assert "≈" in texts(app)
    [figure] = plots(app)
    assert len(figure.data) == 1
    run = app.session.timeline.current
    assert run is not None
    layer, head = run.info.default_head or (0, 0)
    kept = run.head_rows(layer, head, 3, 4)
    np.testing.assert_allclose(np.square(numbers(figure.data[0].z)[3, :4]), np.square(kept / 255), atol=1e-6)
    with patch("miniinfer.ui.attention.scores.WHOLE", 4):
        show(app, "Scores to weights", range="whole, pooled", hide_first=True)
    cursor = run.steps[app.session.timeline.cursor - 1].context_len
    cell = -(-cursor // 4)
    assert len(run.tokens) % cell, "or a cell would end where the text does"
    whole = np.zeros((4 * cell, 4 * cell))
    for i in range(cursor):
        whole[i, 1 : i + 1] = run.head_rows(layer, head, i, i + 1)[1:] / 255
    [figure] = plots(app)
    roots = numbers(figure.data[0].z)
    blocks = whole[: len(roots) * cell, : len(roots) * cell].reshape(len(roots), cell, len(roots), cell)
    np.testing.assert_allclose(roots, blocks.max((1, 3)), atol=1e-6)
    for view in ("Value mix", "RoPE", "Knock out"):
        show(app, view)
        assert plots(app) == []
        assert "as soon as the model is loaded" in texts(app)
    show(app, "All heads")
    assert len(frames(app)[0]) == 270
