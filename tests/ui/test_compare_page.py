"""Two runs side by side: where they part, with the numbers of the runs themselves, and names shown as text."""

import math
from dataclasses import replace

import pytest

from miniinfer.config import SamplingParams
from miniinfer.models.display import visible
from miniinfer.trace.run import ForceToken
from miniinfer.ui.sessions import memory as session_memory
from miniinfer.ui.two_columns import show_blanks
from tests.trace.files.recorded import make_run

GREEDY = SamplingParams(temperature=0, max_new_tokens=4)


def two_runs(app, prompt="2, 4, 6, 8, 10,"):
    """r2, and r3 which branches off it at step 3."""
    session = app.session
    session.new_run(prompt, GREEDY, chat=False, one_pass=True)
    session.step_to(4, math.inf)
    trunk = session.timeline.current
    other = trunk.next_token(3).tokens[1].token_id
    session.branch(ForceToken(3, other))
    session.step_to(4, math.inf)
    return trunk, session.timeline.current


def test_one_run_says_what_will_stand_here(app):
    app.session.step_to(3, math.inf)
    app.open("compare")
    assert any("Two runs will stand side by side here" in text for text in app.marked_up)
    app.test.button(key="compare_again").click()
    app.run()
    first, second = app.session.timeline
    assert (second.info.prompt, second.info.params.seed) == (first.info.prompt, first.info.params.seed + 1)
    assert len(second.steps) == 3
    assert len(app.texts("compare_A")) == len(app.texts("compare_B")) == 2


def test_a_branch_beside_its_trunk_names_the_first_difference(app):
    trunk, branch = two_runs(app)
    app.open("compare")
    a, b = (t.text for t in (trunk.tokens[17], branch.tokens[17]))
    assert f"First difference at output token 3: “{visible(a)}” in A, “{visible(b)}” in B." in app.texts()
    assert app.texts("compare_A")[1] == "".join(t.text for t in trunk.tokens)
    table = app.test.dataframe[0].value
    assert list(table["output"]) == [1, 2, 3, 4]
    assert list(table["same"])[:3] == ["=", "=", "≠"]
    assert list(table["token A"]) == [visible(t.text) for t in trunk.tokens[15:]]
    assert list(table["token B"]) == [visible(t.text) for t in branch.tokens[15:]]
    assert list(table["used probability A"]) == [1.0] * 4, "greedy: all on the best token"
    raw = trunk.next_token(3).raw_probs
    assert table["margin"][2] == pytest.approx(math.log(raw[0] / raw[1]), rel=1e-6)
    assert list(table["difference"][:2]) == [0, 0]


def test_a_recording_says_that_its_figures_were_recorded(app):
    app.session.new_run("Hi", GREEDY, chat=False, one_pass=True)
    app.session.step_to(2, math.inf)
    app.session.add_recording(make_run())
    app.open("compare")
    assert "recorded" not in app.texts("compare_A")[0]
    assert app.texts("compare_B")[0].endswith(" · recorded")
    source = "recorded: probabilities of B · computed: the others, margin and difference"
    assert source in [caption.value for caption in app.test.caption]


def test_equal_runs_have_no_difference_and_unstepped_ones_none_yet(app):
    session = app.session
    for _ in range(2):
        session.new_run("2, 4, 6, 8, 10,", GREEDY, chat=False, one_pass=True)
        session.step_to(3, math.inf)
    app.open("compare")
    assert "The first 3 output tokens are equal; there is no difference so far." in app.texts()
    session.new_run("2, 4, 6, 8, 10,", GREEDY, chat=False, one_pass=True)
    app.run()
    app.test.selectbox(key="compare_b").set_value("r4")
    app.run()
    assert "The first 0 output tokens are equal; there is no difference so far." in app.texts()


def test_different_prompts_are_said_to_be_different_contexts(app):
    app.session.new_run("Hi", GREEDY, chat=False, one_pass=True)
    app.open("compare")
    assert "The prompts differ, so the distributions are of different contexts." in app.texts()


def test_the_same_run_on_both_sides(app):
    two_runs(app)
    app.open("compare")
    app.test.selectbox(key="compare_a").set_value("r3")
    app.run()
    assert app.texts("compare_A") == [text.replace("B · ", "A · ") for text in app.texts("compare_B")]


def test_a_chosen_run_that_was_let_go_is_no_error(app, monkeypatch):
    monkeypatch.setattr(session_memory, "MAX_RUNS", 3)
    two_runs(app)
    app.open("compare")
    app.test.selectbox(key="compare_a").set_value("r1")
    app.run()
    for _ in range(2):
        app.session.new_run("Hi", GREEDY, chat=False, one_pass=True)
    app.run()
    assert app.test.selectbox(key="compare_a").value in ("r3", "r4", "r5")
    app.open("workspace").open("compare")
    assert any("Neither run has an output token yet" in caption.value for caption in app.test.caption)


def test_a_models_file_name_meets_no_markup_renderer(app):
    name = "<b>![x](http://127.0.0.1:9/x)</b> $5 and $6"
    two_runs(app)
    for run in app.session.timeline:
        run.info = replace(run.info, model_name=name)
    app.open("compare")
    assert any(name in text for text in app.texts())
    assert not any(name in text for text in app.marked_up)


def test_stepping_on_this_page_draws_it_anew(app):
    two_runs(app)
    app.session.new_run("2, 4, 6, 8, 10,", GREEDY, chat=False, one_pass=True)
    app.open("compare")
    app.test.selectbox(key="compare_b").set_value("r4")
    app.run()
    app.ask("transport", n=1, run="r4", want=1, cursor=1)
    assert (app.transport["run"], app.transport["last"], app.transport["cursor"]) == ("r4", 1, 1)
    assert app.test.query_params == {"s": app.session.keeper.token, "run": "r4", "step": "1"}
    assert app.texts("compare_B")[1] == "2, 4, 6, 8, 10,␣"


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a b", "a b"), ("  a b ", "␣␣a b␣"), ("  ", "␣␣"), ("", ""), ("\n\ta\r\n", "↵\n⇥a␍↵\n"), (" a\n b", "␣a↵\n b")],
)  # fmt: skip
def test_blanks_that_would_be_stripped_are_shown(text, shown):
    assert show_blanks(text) == shown


def test_what_went_wrong_is_said_on_this_page_too(app):
    app.open("compare")
    app.session.error = "Something <b>odd</b> happened."
    app.run()
    assert app.texts("frame_error") == ["Something <b>odd</b> happened."]
