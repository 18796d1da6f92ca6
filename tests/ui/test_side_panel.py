"""The side panel: new runs, branches, the model; bad values are sentences, and nothing that was typed is lost."""

import pytest

from miniinfer.ui.examples import EXAMPLES
from tests.ui.waiting import wait_until

HOSTILE = "<script>alert(1)</script> ![x](http://127.0.0.1:9/x) $5 and $6 **x** :material/home:"


def error(app):
    return app.texts("panel_error")


def test_new_run_takes_everything_that_was_typed(app):
    app.fill(
        prompt="Name three colours.", kind="chat", temperature=1.5, top_p=0.5, top_k=7, min_p=0.1, seed="99",
        max_new_tokens=5, repetition_penalty=1.1, presence_penalty=0.5, frequency_penalty=-0.5,
        prefill="token by token",
    )  # fmt: skip
    app.press("New run")
    header, _ = app.message
    assert [r["id"] for r in header["runs"]] == ["r1", "r2"]
    facts = header["run"]
    assert (facts["name"], facts["chat"], facts["prefill"], facts["max_new"]) == (
        "Name three colours.", True, "token by token", 5,
    )  # fmt: skip
    assert facts["params"] == {
        "temperature": 1.5, "top_k": 7, "top_p": 0.5, "min_p": 0.1, "repetition_penalty": 1.1,
        "presence_penalty": 0.5, "frequency_penalty": -0.5, "max_new_tokens": 5, "seed": "99",
    }  # fmt: skip
    assert (header["cursor"], header["last"]) == (0, 0)
    assert app.test.query_params == {"s": app.session.keeper.token, "run": "r2", "step": "0"}
    assert error(app) == []


def test_pressing_makes_a_run_and_rerunning_makes_none(app):
    app.press("New run")
    app.run()
    app.open("compare").open("workspace")
    assert [r["id"] for r in app.message[0]["runs"]] == ["r1", "r2"]


def test_a_double_click_on_new_run_makes_one(app):
    """As long as the new one stands at its beginning and nothing was chosen anew, it is the run that was asked for."""
    for _ in range(2):
        app.press("New run")
    assert [r["id"] for r in app.message[0]["runs"]] == ["r1", "r2"]
    app.fill(temperature=0.5)
    app.press("New run")
    app.ask(n=1, run="r3", want=1, cursor=1)
    app.press("New run")
    assert [r["id"] for r in app.message[0]["runs"]] == ["r1", "r2", "r3", "r4"]


def test_branch_here_draws_the_step_again_with_the_new_settings(app):
    app.ask(n=1, run="r1", want=2, cursor=2)
    wait_until(lambda: bool(app.ask(n=2, run="r1", want=2, cursor=2)) and app.message[0]["last"] == 2)
    app.fill(temperature=0.0)
    app.press("Branch here")
    header, _ = app.message
    run = app.session.timeline.current
    assert (header["run"]["parent"], header["run"]["fork_step"], header["cursor"]) == ("r1", 2, 2)
    assert header["run"]["params"]["temperature"] == 0
    assert run.steps[1].token_id == run.next_token(2).tokens[0].token_id
    assert header["runs"][0]["id"] == "r1"


def test_buttons_say_what_is_possible(open_app, gate):
    app = open_app(gate.host).run()
    assert app.button("New run").disabled
    assert app.button("Branch here").disabled, "a recorded run cannot branch"
    gate.open()
    app.run()
    assert not app.button("New run").disabled
    assert not app.button("Branch here").disabled


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"prompt": ""}, "The prompt is empty"),
        ({"prompt": "a" * 100_001}, "100,001 characters"),
        ({"top_p": 0.0}, "top_p must be above 0"),
        ({"repetition_penalty": 0.0}, "repetition_penalty must be above 0"),
        ({"repetition_penalty": -1.0}, "repetition_penalty must be above 0"),
        ({"seed": "-1"}, "seed must be a whole number"), ({"seed": "1e3"}, "seed must be a whole number"),
        ({"seed": str(2**64)}, "seed must be a whole number"), ({"seed": "٣"}, "seed must be a whole number"),
    ],
    ids=lambda v: str(v)[:30],
)  # fmt: skip
def test_a_bad_value_is_a_sentence_shown_as_text_and_nothing_is_lost(app, values, sentence):
    app.fill(**({"prompt": HOSTILE} | values))
    app.press("New run")
    assert len(error(app)) == 1
    assert sentence in error(app)[0]
    header, _ = app.message
    assert [r["id"] for r in header["runs"]] == ["r1"]
    assert (header["last"], header["cursor"]) == (1, 1)
    typed = ({"prompt": HOSTILE} | values)["prompt"]
    assert app.test.text_area(key="prompt").value == typed, "what was typed stays to be mended"
    app.fill(prompt="Hi", top_p=0.9, repetition_penalty=1.0, seed=str(2**64 - 1))
    app.press("New run")
    assert error(app) == []
    assert app.message[0]["run"]["id"] == "r2"


def test_a_branch_that_cannot_be_is_a_sentence(app):
    app.fill(prompt="one two three", prefill="token by token")
    app.press("New run")
    app.press("Branch here")
    assert "Step once first" in error(app)[0]
    app.ask(n=1, run="r2", want=1, cursor=1)
    app.press("Branch here")
    assert "still being prefilled" in error(app)[0]
    assert app.message[0]["run"]["id"] == "r2"


def test_a_run_that_was_stepped_can_branch_although_a_step_does_not_draw_the_panel(app):
    app.press("New run")
    app.ask(n=1, run="r2", want=1, cursor=1)
    app.press("Branch here")
    assert error(app) == []
    assert (app.message[0]["run"]["parent"], app.message[0]["run"]["fork_step"]) == ("r2", 1)


def test_hostile_text_meets_no_markup_renderer(app):
    app.fill(prompt=HOSTILE)
    app.press("New run")
    assert "".join(t[1] for t in app.message[0]["tokens"]) == HOSTILE
    for page in ("compare", "model", "workspace"):
        app.open(page)
        shown = [text for text in app.marked_up if not text.startswith("<style>")]
        assert not any(part in text for text in shown for part in ("script", "127.0.0.1", "$5", "**x**", "material"))


def test_a_trailing_space_is_kept_and_mentioned(app):
    """TOK-05."""
    app.fill(prompt="The quick brown fox ")
    app.press("New run")
    assert [t[0] for t in app.message[0]["tokens"]] == [504, 2365, 6354, 16438, 216]
    assert any("ends in a space" in caption.value for caption in app.test.sidebar.caption)
    app.fill(prompt="The quick brown fox")
    app.press("New run")
    assert not any("ends in a space" in caption.value for caption in app.test.sidebar.caption)


def test_line_ends_of_the_prompt_are_tokens_to_see(app):
    """TOK-07. A browser's text field gives LF whatever was pasted; what reaches the session is kept as it is."""
    app.fill(prompt="a\nb")
    app.press("New run")
    assert [t[0] for t in app.message[0]["tokens"]] == [81, 198, 82]
    app.fill(prompt="a\r\nb")
    app.press("New run")
    assert [(t[0], t[2]) for t in app.message[0]["tokens"]] == [(81, "61"), (201, "0d"), (198, "0a"), (82, "62")]


@pytest.mark.parametrize("index", range(len(EXAMPLES)))
def test_choosing_an_example_fills_in_its_prompt_and_kind(app, index):
    app.fill(example=index)
    app.run()
    assert app.test.text_area(key="prompt").value == EXAMPLES[index].prompt
    assert app.test.button_group(key="kind").value == EXAMPLES[index].kind
    app.press("New run")
    assert app.message[0]["run"]["chat"] is (EXAMPLES[index].kind == "chat")


def test_settings_survive_a_change_of_page(app):
    app.fill(prompt="kept", temperature=0.3)
    app.press("New run")
    app.open("model").open("compare").open("workspace")
    assert app.test.text_area(key="prompt").value == "kept"
    assert app.test.slider(key="temperature").value == 0.3
