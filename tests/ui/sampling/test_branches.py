"""Branches of the sampling page: continuations, names, the tree that is walked by clicks, two runs side by side."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from miniinfer.config import SamplingParams
from miniinfer.engine.sampler import coin
from miniinfer.models.display import visible
from miniinfer.trace.run import ForceToken
from miniinfer.trace.sampling.place import step_of_output
from miniinfer.trace.sampling.sampling import ORDERS
from miniinfer.ui.sessions import memory as session_memory
from miniinfer.ui.two_columns import sampler_line
from tests.ui.app_test import App
from tests.ui.sampling.page import current, field, frame, plots, sampling, show, texts

TREE = "sampling_tree_figure"


def new_run(app: App, **params: Any) -> App:
    """The same prompt once more, with other settings, as "Run the prompt with these" makes it."""
    for name, value in params.items():
        field(app, name).set_value(value)
        app.run()
    app.test.button(key="sampling_new_run").click()
    return app.run()


def branch_with(app: App, typed: str) -> App:
    app.test.text_input(key="sampling_typed").set_value(typed)
    next(b for b in app.test.button if b.label == "Branch with this").click()
    return app.run()


def dots(app: App) -> list[list[Any]]:
    """[run id, step, words] of the tree's dots."""
    return [data for trace in plots(app)[0]["data"] for data in trace.get("customdata", ())]


def click(app: App, run_id: str, step: int) -> App:
    """What the browser sends for a click on that dot."""
    data = next(d for d in dots(app) if d[:2] == [run_id, step])
    return app.select(TREE, points=[{"customdata": data, "point_index": 0}])


def table(app: App, *columns: str) -> pd.DataFrame:
    """The first table that has these columns."""
    return next(d.value for d in app.test.dataframe if set(columns) <= set(d.value.columns))


def test_a_typed_continuation_is_one_branch_with_several_forced_tokens(app: App) -> None:
    branch_with(sampling(app, view="Branches"), " the city of light")
    branch = current(app)
    assert len(app.session.timeline) == 2
    assert "".join(t.text for t in branch.tokens[-4:]) == " the city of light"
    assert [m.forced for m in branch.steps[2:]] == [True] * 4
    row = frame(app).iloc[1]
    assert row["took"] == "␣the"
    assert row["positions taken over"] == 7
    assert (row["shared, used"], row["shared, allocated"]) == (0, 0), "its block was shared until it was written into"
    assert any("took over 7 positions of r1" in c.value for c in app.test.caption)
    assert any("It shares none of them with r1 now" in c.value for c in app.test.caption)
    assert app.session.timeline.cursor == len(branch.steps)
    assert branch.info.name == "step 3: “␣the␣city␣of␣light”"


def test_an_empty_continuation_is_a_sentence(app: App) -> None:
    branch_with(sampling(app, view="Branches"), "")
    assert "The continuation is empty" in texts(app)
    assert len(app.session.timeline) == 1


def test_a_continuation_that_is_too_long_is_a_sentence(app: App) -> None:
    branch_with(sampling(app, view="Branches"), "zebra " * 80)
    assert "at most 64 are taken at once" in texts(app)
    assert len(app.session.timeline) == 1


def test_the_run_one_is_in_can_be_named(app: App) -> None:
    sampling(app, view="Branches")
    app.test.text_input(key="sampling_name_r1").set_value("  the   trunk ")
    next(b for b in app.test.button if b.label == "Rename").click()
    app.run()
    assert frame(app)["name"].tolist() == ["the trunk"]
    assert "<b>r1  the trunk</b>" in str(plots(app)[0]["layout"]["yaxis"]["ticktext"])
    app.test.text_input(key="sampling_name_r1").set_value("   ")
    next(b for b in app.test.button if b.label == "Rename").click()
    app.run()
    assert frame(app)["name"].tolist() == ["the trunk"]


def test_a_click_on_a_dot_opens_its_run_at_its_step(app: App) -> None:
    branch_with(sampling(app, view="Branches"), " a b")
    trunk, branch = app.session.timeline
    assert current(app) is branch
    click(app, trunk.info.run_id, 2)
    assert current(app) is trunk
    assert app.session.timeline.cursor == 2
    assert texts(app).startswith("Step 2: after")
    assert (app.transport["run"], app.transport["cursor"]) == (trunk.info.run_id, 2)
    click(app, branch.info.run_id, 4)
    assert (current(app), app.session.timeline.cursor) == (branch, 4)
    app.run()
    assert (current(app), app.session.timeline.cursor) == (branch, 4), "the click is done once"


def test_a_click_on_a_run_that_was_let_go_does_nothing(app: App) -> None:
    sampling(app, view="Branches")
    before = current(app)
    app.select(TREE, points=[{"customdata": ["r99", 1, ""]}, {}])
    app.select(TREE, points=[])
    assert (current(app), app.session.timeline.cursor) == (before, 3)


def test_shared_blocks_are_said_in_positions_used_and_allocated_bytes(app: App) -> None:
    app.session.new_run("word " * 40, SamplingParams(temperature=0, max_new_tokens=4), chat=False, one_pass=True)
    sampling(app, view="Branches")
    branch_with(app, " a b")
    run = current(app)
    per_position, block = run.engine.kv_cache.position_bytes, run.engine.kv_cache.block_bytes
    row = frame(app).iloc[-1]
    taken = run.steps[2].context_len
    shared = taken // 16 * 16
    assert (row["positions taken over"], row["positions shared now"]) == (taken, shared)
    assert (row["shared, used"], row["shared, allocated"]) == (shared * per_position, shared // 16 * block)
    said = next(c.value for c in app.test.caption if "took over" in c.value)
    assert f"{shared:,} of them with {run.info.parent}: {shared * per_position:,} bytes used" in said
    assert "computed" in said


def test_the_tree_of_twelve_runs_and_of_a_branch_whose_trunk_was_let_go(app: App, monkeypatch: Any) -> None:
    monkeypatch.setattr(session_memory, "MAX_RUNS", 3)
    sampling(app, view="Branches")
    for typed in (" a", " b", " c"):
        branch_with(app, typed)
    assert len(app.session.timeline) == 3
    assert frame(app)[["run", "trunk"]].values.tolist() == [["r2", "r1"], ["r3", "r2"], ["r4", "r3"]]
    assert len(plots(app)[0]["layout"]["yaxis"]["ticktext"]) == 3


def test_alone_the_two_column_view_says_how_another_run_is_made(app: App) -> None:
    sampling(app, view="Side by side")
    assert "press “Run the prompt with these”" in texts(app)
    assert plots(app) == []


def test_the_same_prompt_under_two_settings_steps_along_in_two_columns(app: App) -> None:
    sampling(app)
    first = current(app)
    new_run(app, temperature=0.0)
    show(app, "Side by side")
    second = current(app)
    assert app.test.selectbox(key="sampling_beside").value == first.info.run_id
    for step in (3, 4, 5):
        app.ask("transport", run=second.info.run_id, want=step, cursor=step, full=True)
        assert step_of_output(first, step - 1) == step, "the other run was stepped along"
        a, b = app.texts("sampling_beside_A"), app.texts("sampling_beside_B")
        assert a[0] == f"{second.info.run_id} · temperature 0, top-p 0.95, top-k 0, seed 0"
        assert b[0] == f"{first.info.run_id} · temperature 0.8, top-p 0.95, top-k 0, seed 0"
        for run, words in ((second, a[1]), (first, b[1])):
            token = run.tokens[run.info.num_prompt_tokens + step - 1]
            assert words.startswith(f"Output token {step}: after")
            assert token.text.strip() in words
    own = first.next_token(5)
    bars = {t["name"]: t for t in plots(app)[0]["data"]}
    drawn = float(own.used_probs[next(i for i, t in enumerate(own.tokens) if t.token_id == own.token_id)])
    assert max(bars[second.info.run_id]["x"]) == 0
    assert min(bars[second.info.run_id]["x"]) == -1, "greedy: all on one token"
    assert any(x == pytest.approx(drawn, abs=1e-6) for x in bars[first.info.run_id]["x"])
    app.test.session_state["sampling_beside_fold"] = True
    app.run()
    assert len(table(app, f"token {second.info.run_id}", f"token {first.info.run_id}")) == 5


def test_two_seeds_of_one_prompt_have_their_own_coins(app: App) -> None:
    sampling(app)
    new_run(app, seed="5")
    show(app, "Side by side")
    said = next(c.value for c in app.test.caption if "The coin was" in c.value)
    assert f"The coin was {coin(5, 2):.4f} in r2 and {coin(0, 2):.4f} in r1" in said


def test_without_stepping_along_the_other_run_stays_where_it_is(app: App) -> None:
    sampling(app)
    first = current(app)
    new_run(app, temperature=0.5)
    show(app, "Side by side")
    app.test.toggle(key="sampling_along").set_value(False)
    app.run()
    app.ask("transport", run="r2", want=5, cursor=5, full=True)
    assert len(first.steps) == 3
    assert app.texts("sampling_beside_B")[1] == "It has not been stepped that far: there is no output token 5."
    assert plots(app) == []


def test_a_run_that_has_ended_says_so_and_the_other_goes_on(app: App) -> None:
    app.session.new_run("One, two,", SamplingParams(temperature=0, max_new_tokens=2), chat=False, one_pass=True)
    app.session.step_to(2, math.inf)
    app.session.new_run("One, two,", SamplingParams(temperature=0, max_new_tokens=6), chat=False, one_pass=True)
    sampling(app, step=4, view="Side by side")
    assert app.test.selectbox(key="sampling_beside").value == "r2"
    assert app.texts("sampling_beside_B")[1] == "It ended (length): there is no output token 4."


def test_two_branches_name_their_first_difference(app: App) -> None:
    sampling(app)
    trunk = current(app)
    app.session.branch(ForceToken(2, 7042))
    show(app, "Side by side")
    assert app.test.selectbox(key="sampling_beside").value == trunk.info.run_id, "the trunk is the likely one"
    token = trunk.tokens[trunk.info.num_prompt_tokens + 1].text
    assert f"First difference at output token 2: “␣Paris” in r2, “{visible(token)}” in r1." in texts(app)
    assert "it was forced to take “␣Paris”" in app.texts("sampling_beside_A")[1]
    assert list(table(app, "survives").columns)[3:5] == ["r2", "r1"]


def test_the_run_held_beside_may_be_opened_or_let_go(app: App) -> None:
    """Whatever becomes of it, another one is offered."""
    sampling(app)
    for seed in (1, 2):
        app.session.new_run("Hi", SamplingParams(seed=seed, max_new_tokens=3), chat=False, one_pass=True)
        sampling(app)
    show(app, "Side by side")
    app.test.selectbox(key="sampling_beside").set_value("r1")
    app.run()
    assert "r1 · temperature" in app.texts("sampling_beside_B")[0]
    app.session.timeline.open("r1")
    app.run()
    assert app.test.selectbox(key="sampling_beside").value in ("r2", "r3")
    app.session.timeline.open("r3")
    app.run()
    app.session._release([app.session.timeline.remove("r1")])
    app.run()
    assert app.test.selectbox(key="sampling_beside").value == "r2"


def test_a_run_keeps_the_texts_of_its_own_model(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    sampling(app)
    before = texts(app)
    monkeypatch.setattr(type(app.session), "model", None)  # as while another one is being loaded
    app.run()
    assert texts(app) == before


def test_the_line_of_settings_names_what_is_on(app: App) -> None:
    params = SamplingParams(
        temperature=1.5, top_k=5, min_p=0.1, repetition_penalty=1.3, order=tuple(ORDERS.values())[1], seed=2
    )
    app.session.new_run("Hi", params, chat=False, one_pass=True)
    assert sampler_line(current(app)) == (
        "temperature 1.5, top-p 0.95, top-k 5, min-p 0.1, repetition penalty 1.3, order repetition → presence frequency"
        " → top-k → top-p → min-p → temperature, seed 2"
    )
