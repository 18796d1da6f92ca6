"""The page "Break it", run in process: what it says before and after a run; a session's runs stay as they are."""

from __future__ import annotations

from typing import Any

import pytest

from miniinfer.errors import BadInputError
from miniinfer.faults.catalogue import FAULTS, find_fault
from miniinfer.ui.break_it import run as break_run
from miniinfer.ui.break_it.run import MOST_PROMPT, Question, run_both
from tests.ui.app_test import App

HOSTILE = "<img src=x onerror=alert(1)> <b>a</b> :material/home:"


def choose(app: App, fault_id: str, **values: Any) -> App:
    """Switch a fault on, then put other values into the fields."""
    app.test.radio(key="break_fault").set_value(fault_id)
    app.run()
    for name, value in values.items():
        kind = app.test.text_area if name == "prompt" else app.test.number_input
        kind(key=f"break_{name}").set_value(value)
    return app


def press(app: App) -> App:
    app.test.button(key="break_run").click()
    return app.run()


def show(app: App, view: str) -> App:
    app.test.session_state["break_view"] = view
    return app.run()


def page(app: App) -> str:
    """Everything that can be read on it."""
    return "\n".join([*app.texts(), *app.marked_up])


def plots(app: App) -> list[dict[str, Any]]:
    return [message["figure"] for message in app.figures.values()]


def spans(app: App) -> tuple[str, str]:
    """The two columns of tokens as they are sent to the browser."""
    found = [body for body in app.marked_up if "break-tokens" in body and "<span" in body]
    return found[0], found[1]


def test_before_the_model_is_there_it_says_so_and_the_button_is_off(open_app, gate):
    app = open_app(gate.host).run()
    app.open("break_it")
    assert "Both sides can be run as soon as the model is loaded" in page(app)
    assert app.test.button(key="break_run").disabled
    assert "def written_one_slot_early" in app.test.code[0].value
    gate.open()
    app.run()
    assert "Press “Run both”" in page(app)
    assert not app.test.button(key="break_run").disabled


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_choosing_a_fault_says_what_it_is_and_fills_in_its_prompt(app, fault):
    app.open("break_it")
    choose(app, fault.id)
    text = page(app)
    assert fault.claim in text
    assert f"How one would have noticed: {fault.notice}" in text
    assert fault.what_is_replaced in text
    assert fault.guard in text
    assert (f"Set up on both sides: {fault.situation.sentence}" in text) == bool(fault.situation.sentence)
    assert (fault.detail is not None) == ("This model's own" in text)
    assert app.test.text_area(key="break_prompt").value == fault.situation.prompt
    assert app.test.button_group(key="break_kind").value == ("chat" if fault.situation.chat else "raw")


def test_the_whole_page_of_one_fault(app, monkeypatch):
    """One run serves all views: the engine is stepped for seconds here."""
    session = app.session
    before = session.timeline.current
    tokens, used = list(before.seq.token_ids), session._engine.pool.num_used
    app.open("break_it")
    press(choose(app, "cache_off_by_one", new=3))
    monkeypatch.setattr("miniinfer.ui.break_it.page.run_both", None)
    press(app)  # the second click of a double one asks what is known
    facts = page(app)
    assert "**write_kv, layer 0**" in facts
    assert "step 2, decode · slot_mapping · differs by up to 1, as claimed" in facts
    assert "**output token 2**" in facts
    assert "**1.3168**" in facts
    assert "equal, bit for bit" in facts
    assert "**1.3168 → " in facts
    healthy, broken = spans(app)
    assert healthy.count('class="prompt"') == broken.count('class="prompt"') == 5
    assert healthy.count('class="same"') == 1
    assert healthy.count('class="differs"') == broken.count('class="differs"') == 2
    assert "the model assigned 77.3 %" in healthy
    assert len(plots(app)) == 2
    assert plots(app)[0]["layout"]["annotations"][0]["text"] == "output token 1"
    show(app, "Loss")
    losses = plots(app)
    assert [trace["name"] for trace in losses[0]["data"]] == ["healthy, mean 1.3168", "broken, mean 1.3168"]
    assert losses[1]["data"][0]["name"] == "healthy, mean 1.3168"
    assert losses[1]["data"][1]["name"] != "broken, mean 1.3168"
    show(app, "Code")
    assert "place - (entry.start > 0)" in app.test.code[0].value
    assert not plots(app)
    for table, columns in {
        "Tokens": ["output", "token A"], "Next-token bars": ["output", "token_id"], "Stages": ["stage", "layer"],
        "Layers": ["layer", "relative difference"], "Loss": ["position", "token"],
    }.items():  # fmt: skip
        app.test.session_state["break_table"] = table
        show(app, "Tables")
        assert list(app.test.dataframe[0].value.columns[:2]) == columns
        shown = app.test.dataframe[0].value
        assert len(shown)
        texts = [text for name in ("token", "token A", "token B") if name in shown for text in shown[name]]
        assert not any(blank in text for text in texts for blank in " \n"), "each token can be seen"
    assert session.timeline.current is before
    assert list(before.seq.token_ids) == tokens
    assert session._engine.pool.num_used == used
    # What was run stays beside its fault, also after another page; a changed prompt is said to be another question.
    app.open("workspace").open("break_it")
    assert "**write_kv, layer 0**" in page(app)
    app.test.text_area(key="break_prompt").set_value("Hello")
    app.run()
    assert "was changed since" in page(app)
    choose(app, "no_causal_mask")
    assert "write_kv, layer 0" not in page(app)
    choose(app, "cache_off_by_one")
    assert "**write_kv, layer 0**" in page(app)


def test_both_healthy_are_equal_and_hostile_tokens_stay_text(app):
    app.open("break_it")
    press(choose(app, "none", prompt=HOSTILE, new=2))
    text = page(app)
    assert "2 steps compared: every tensor is equal, bit for bit" in text
    assert "all 2 output tokens are equal" in text
    assert "**Healthy too**" in text
    assert "**Broken**" not in text
    assert {trace["name"] for trace in plots(app)[0]["data"]} == {"healthy", "healthy too"}
    assert "Nowhere: the residual streams are equal, bit for bit." in text
    for side in spans(app):
        assert "&lt;</span>" in side
        assert "<img" not in side
        assert "<b>" not in side
    assert not any(HOSTILE in body for body in app.marked_up)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [({"prompt": ""}, "The prompt is empty"), ({"prompt": "a " * (MOST_PROMPT + 1)}, f"at most {MOST_PROMPT}")],
)
def test_a_prompt_that_cannot_be_run_is_a_sentence(app, values, sentence):
    app.open("break_it")
    press(choose(app, "no_causal_mask", **values))
    assert any(sentence in text for text in app.texts("break_error_page"))
    assert not plots(app)
    choose(app, "no_scaling")
    assert not app.texts("break_error_page"), "it was about another question"


def test_without_a_model_or_in_a_closed_tab_nothing_runs(session, new_session, monkeypatch):
    question = Question(find_fault("no_causal_mask"), "Hi", False, 2, 0.0, 0)
    monkeypatch.setattr(type(session), "model", None)
    with pytest.raises(BadInputError, match="once a model is loaded"):
        run_both(session, question, lambda words, share: None)
    monkeypatch.undo()
    session.close()
    with pytest.raises(BadInputError, match="lost its connection"):
        run_both(session, question, lambda words, share: None)


def test_a_run_that_is_interrupted_gives_its_blocks_back(session, monkeypatch):
    """As when the user clicks on while it runs: the script is stopped inside the progress bar."""
    made = []
    healthy = break_run._Bench._engine

    def engine(self, fault):
        made.append(healthy(self, fault))
        return made[-1]

    monkeypatch.setattr(break_run._Bench, "_engine", engine)

    def stop(words, share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_both(session, Question(None, "Hi there", False, 4, 0.0, 0), stop)
    assert len(made) == 2
    assert [e.pool.num_used for e in made] == [0, 0]
