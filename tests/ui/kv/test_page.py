"""The KV cache page, run in process: every number on it is the engine's own, at the transport's run and step."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from miniinfer.config import SamplingParams
from miniinfer.errors import BadInputError
from miniinfer.trace.run import ForceToken
from miniinfer.ui.sessions.session import Session
from tests.ui.app_test import MARKUP, App
from tests.ui.kv.page import POSITION_BYTES, VIEWS, frame, kv, plots, run_of, show, texts

HOSTILE = "<img src=x onerror=alert(1)> **x** $a$ `b`"


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_has_at_most_two_plots_the_three_numbers_and_a_table(app: App, view: str) -> None:
    kv(app, view=view)
    storage = run_of(app).engine.kv_cache.data.untyped_storage().nbytes()
    assert f"used {7 * POSITION_BYTES:,} B · allocated {16 * POSITION_BYTES:,} B" in texts(app)
    assert f"reserved {storage:,} B" in texts(app)
    assert len(plots(app)) <= 2
    if view != "Predict":
        assert len(app.test.dataframe) > 0


def test_the_vectors_shown_are_the_engines(app: App) -> None:
    kv(app)
    run = run_of(app)
    app.test.number_input(key="kv_layer").set_value(17)
    app.test.number_input(key="kv_head_number").set_value(1)
    app.run()
    data, table = run.engine.kv_cache.data, run.seq.block_table
    position = 6
    assert frame(app)["K (after RoPE)"].tolist() == data[17, 0, 1, table[0], position].tolist()
    assert frame(app)["V"].tolist() == data[17, 1, 1, table[0], position].tolist()
    app.test.toggle(key="kv_all_shown").set_value(True)
    app.run()
    whole = frame(app, 1)
    assert np.array_equal(whole.filter(regex=r"^k\d").to_numpy(), data[17, 0, 1, table[0], :7].numpy())
    assert f"in slot 6 of block {table[0]}" in texts(app)
    app.test.toggle(key="kv_follow").set_value(False)
    app.run()
    app.test.number_input(key="kv_position").set_value(2)
    app.run()
    assert frame(app)["V"].tolist() == data[17, 1, 1, table[0], 2].tolist()
    assert "q 3" in "".join(app.marked_up)
    assert any("9 query heads / 3 KV heads = 3" in c.value for c in app.test.caption)


def test_the_page_stands_on_the_cursor_and_the_transport_moves_it(app: App) -> None:
    kv(app)
    app.test.toggle(key="kv_all_shown").set_value(True)
    app.run()
    assert len(frame(app, 1)) == 7
    app.ask("transport", run=run_of(app).info.run_id, want=2, cursor=2, full=True)
    assert texts(app).startswith("After step 2 the cache holds 6 positions")
    assert len(frame(app, 1)) == 6, "what the cache held then"
    app.ask("transport", run=run_of(app).info.run_id, cursor=0, full=True)
    assert "Nothing is in the cache yet" in texts(app)
    new = run_of(app).info.num_prompt_tokens
    for view in VIEWS[:2]:
        show(app, view)
        assert f"46,080 B a position, {new * POSITION_BYTES:,} B in all, into 1 block of 16 slots" in texts(app)
        assert plots(app) == []
    app.test.button(key="kv_first_token").click()
    app.run()
    assert texts(app).startswith(f"After step 1 the cache holds {new} positions")


def test_the_large_table_is_made_only_when_it_is_asked_for(app: App) -> None:
    kv(app)
    assert [len(table.value) for table in app.test.dataframe] == [64], "the one position's numbers"
    app.test.toggle(key="kv_all_shown").set_value(True)
    app.run()
    assert [len(table.value) for table in app.test.dataframe] == [64, 7]


def test_the_position_that_is_held_is_kept_within_a_shorter_run(app: App) -> None:
    kv(app, step=6)
    app.test.toggle(key="kv_follow").set_value(False)
    app.run()
    app.test.number_input(key="kv_position").set_value(9)
    app.run()
    app.ask("transport", run=run_of(app).info.run_id, cursor=1, full=True)
    assert app.test.number_input(key="kv_position").value == 4


def test_who_reads_is_the_runs_own_attention(app: App) -> None:
    kv(app, view="Who reads them")
    run = run_of(app)
    layer, head = run.info.default_head
    weights = app.session.look([run], lambda: run.weights_at(layer, 6))
    table = frame(app)
    for reader in range(head // 3 * 3, head // 3 * 3 + 3):
        assert table[f"weight, head {reader}"].tolist() == weights[reader].tolist()
    assert "q is used once and thrown away" in texts(app)
    queries = run.queries_at(6)[layer]
    assert frame(app, 1)[f"q of head {head}, not cached"].tolist() == queries[head].tolist()


def test_a_branch_made_anywhere_shows_at_once_and_its_copy_when_it_writes(app: App) -> None:
    kv(app, view="Blocks")
    trunk = run_of(app)
    assert frame(app)["shared with"].tolist() == [""]
    assert any("None so far" in c.value for c in app.test.caption)
    app.test.button(key=f"kv_branch_{trunk.info.run_id}").click()
    app.run()
    branch = run_of(app)
    assert branch.info.parent == trunk.info.run_id
    assert frame(app)["ref_count"].tolist() == [2]
    assert "copied first, then written (copy-on-write)" in texts(app)
    assert f"1 block shared, which saves {16 * POSITION_BYTES:,} B" in texts(app)
    app.ask("transport", run=branch.info.run_id, want=4, cursor=4, full=True)
    copies = frame(app, 1)
    assert copies[["run", "step", "position", "from", "to"]].values.tolist() == [
        [branch.info.run_id, 4, 7, trunk.seq.block_table[0], branch.seq.block_table[0]]
    ]
    app.session.branch(ForceToken(4, 100))
    app.run()
    assert frame(app)["ref_count"].tolist() == [2], "one that was made on another page"


def test_three_numbers_at_every_step_of_a_run_with_branches(app: App) -> None:
    kv(app, step=9, view="Blocks")
    app.session.branch(ForceToken(9, 100))
    for step in range(9, 15):
        app.ask("transport", run=run_of(app).info.run_id, want=step, cursor=step, full=True)
        cache, engine = run_of(app).engine.kv_cache, run_of(app).engine
        assert (
            f"Pool of 2 runs: used {engine.used_bytes():,} B · allocated {engine.allocated_bytes():,} B" in texts(app)
        )
        assert f"reserved {cache.data.untyped_storage().nbytes():,} B" in texts(app)
        held = run_of(app).seq.num_computed_tokens
        assert f"used {held * POSITION_BYTES:,} B · allocated {-(-held // 16) * 16 * POSITION_BYTES:,} B" in texts(app)
        assert frame(app)["filled"].sum() == held
    assert frame(app)["physical"].tolist() == run_of(app).seq.block_table


def test_another_block_size_takes_effect_with_the_next_run_and_changes_no_value(app: App) -> None:
    kv(app, view="Blocks")
    before = run_of(app)
    app.test.selectbox(key="kv_block_size").select(4)
    app.run()
    assert any("the next new run gets blocks of 4" in c.value for c in app.test.caption)
    assert run_of(app).engine.config.block_size == 16
    app.session.branch(ForceToken(2, 100))
    app.session.step_to(3, math.inf)
    assert run_of(app).engine is before.engine, "a branch keeps the pool of its trunk"
    app.session.timeline.open(before.info.run_id)
    app.session.timeline.cursor = 3
    app.run()
    app.test.button(key=f"kv_run_again_{before.info.run_id}").click()
    app.run()
    again = run_of(app)
    assert (again.engine.config.block_size, again.info.block_size, app.session.timeline.cursor) == (4, 4, 3)
    assert frame(app)["positions"].tolist() == ["0 to 3", "4 to 6"]
    assert again.seq.token_ids == before.seq.token_ids[: len(again.seq.token_ids)]
    show(app, "Keys and values")
    table, old = again.seq.block_table, before.seq.block_table
    data = again.engine.kv_cache.data[:, :, :, table].flatten(3, 4)[:, :, :, :7]
    assert np.array_equal(data.numpy(), before.engine.kv_cache.data[:, :, :, old].flatten(3, 4)[:, :, :, :7].numpy())
    assert f"in slot 2 of block {table[1]}" in texts(app)


def test_a_block_size_that_is_none_is_refused(session: Session) -> None:
    with pytest.raises(BadInputError, match="block_size"):
        session.choose_block_size(0)
    assert session.block_size == 16


def test_bytes_against_length_and_step_by_step(app: App) -> None:
    kv(app, view="Bytes")
    lines = frame(app).set_index("line")
    assert lines.loc["SmolLM2-135M-Instruct, float32 (this run)", "bytes a position"] == POSITION_BYTES
    assert lines.loc["without GQA, float32", "bytes a position"] == 3 * POSITION_BYTES
    assert lines.loc["Llama-3.1-70B", "card is full at"] == 78_643
    app.test.selectbox(key="kv_card").select("another size")
    app.run()
    app.test.number_input(key="kv_card_gib").set_value(0.1)
    app.run()
    assert frame(app)["card is full at"].tolist()[0] == int(0.1 * 2**30) // POSITION_BYTES
    app.test.toggle(key="kv_with_weights").set_value(True)
    app.run()
    assert frame(app)["weights bytes"].tolist()[0] == run_of(app).info.weight_bytes
    app.test.toggle(key="kv_log_x").set_value(False)
    app.test.multiselect(key="kv_known").set_value([])
    app.run()
    assert len(frame(app)) == 4
    app.test.radio(key="kv_bytes_view").set_value("step by step")
    app.run()
    assert frame(app)["used bytes"].tolist() == [(4 + step) * POSITION_BYTES for step in (1, 2, 3)]


def test_hostile_texts_are_never_markup(app: App) -> None:
    app.session.new_run(HOSTILE, SamplingParams(max_new_tokens=4), chat=False, one_pass=True)
    app.run()
    app.session.step_to(2, math.inf)
    ids = app.session.model.tokenizer.encode("<img src=x>", parse_special=False)  # type: ignore[union-attr]
    app.session.branch(ForceToken(2, ids[0]))
    app.open("kv_cache")
    for view in VIEWS:
        show(app, view)
        for kind in MARKUP:
            for element in app.test.get(kind):
                assert "img" not in str(getattr(element, "value", "")), (view, kind)
        assert all("img src" not in body for body in app.marked_up)
        for spec in plots(app):
            assert "<img" not in json.dumps(spec)


def test_a_recorded_run_says_that_it_has_no_cache_and_shows_what_it_holds(
    open_app: Callable[..., App], gate: Any
) -> None:
    app = open_app(gate.host).open_first("kv_cache")
    assert "it has no engine and so no cache to look into" in texts(app)
    assert "After step 1 the cache holds 5 positions" in texts(app)
    assert any("recorded" in c.value for c in app.test.caption)
    run = run_of(app)
    assert frame(app)["used bytes"].tolist() == [m.kv_used_bytes for m in run.steps]
    norms = frame(app, 1)
    assert norms["norm of K"].tolist() == run.kv_norms(0)[:5, :, 0].ravel().tolist()
