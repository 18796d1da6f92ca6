"""A run comes back where something has changed meanwhile: its model file was moved or replaced, the compiled core is
not there, the process was ended before the last step was saved."""

import math
from dataclasses import replace

import pytest

from miniinfer.config import SamplingParams
from miniinfer.errors import BadInputError
from miniinfer.store.faults import StoreError
from miniinfer.ui.saving.came_back import rounding
from miniinfer.ui.saving.model_of_run import check_model_file, file_of, where_it_is_now
from miniinfer.ui.saving.view import saved_view
from tests.ui.app_test import close_tab

SHORT = SamplingParams(max_new_tokens=8, seed=5, temperature=1.2)


@pytest.fixture
def left(visit, saved_runs):
    """A run of four steps, with one forced, that a visitor has left: its address, its form, what it was."""
    session = visit()
    session.new_run("Once upon a time", SHORT, chat=False, one_pass=True)
    session.step_to(2, math.inf)
    session.continue_with(2, [11, 12], "typed")
    session.step_to(4, math.inf)
    run = session.timeline.current
    tokens, coins = [t.token_id for t in run.tokens], [m.coin for m in run.steps]
    session.close()
    forms = []
    saved_runs.ask(lambda store: forms.append(store.load(session.keeper.token, "r2")))
    return session.keeper.token, forms[0], (tokens, coins)


def save(saved_runs, form, **changes):
    changed = replace(form, **changes)
    saved_runs.ask(lambda store: store.save([changed]))
    return changed


def test_a_step_that_was_seen_and_not_saved_is_made_again_with_its_token(left, visit, saved_runs):
    token, form, (tokens, coins) = left
    assert [step.forced for step in form.steps] == [False, True, True, False]
    save(saved_runs, form, steps=form.steps[:3], cursor=3)
    again = visit()
    assert again.keeper.come_back(token, "r2", 4)
    assert again.go_live()
    run = again.timeline.current
    assert ([t.token_id for t in run.tokens], [m.coin for m in run.steps]) == (tokens, coins)
    assert again.timeline.cursor == 4
    assert again.note.endswith(" Step 4 was not saved yet and ran again, with the same coin and new times.")
    assert "is back at step 4. Its tokens" in again.note


def test_an_address_far_behind_the_last_step_is_no_reason_to_step(left, visit):
    token, form, _ = left
    again = visit()
    again.keeper.come_back(token, "r2", 10**6)
    again.go_live()
    assert len(again.timeline.current.steps) == len(form.steps)
    assert again.timeline.cursor == len(form.steps)


def test_a_run_without_steps_says_that_it_is_back(visit):
    session = visit()
    session.new_run("Once", SHORT, chat=False, one_pass=True)
    session.close()
    again = visit()
    again.keeper.come_back(session.keeper.token, "r1", 0)
    again.go_live()
    assert again.note == "“Once” is back, before its first step."


def test_a_model_file_that_was_moved(left, visit, saved_runs):
    token, form, (tokens, _) = left
    moved = replace(form.model, source="/nowhere/smol.gguf")
    save(saved_runs, form, model=moved)
    again = visit()
    assert again.keeper.come_back(token, "r2", 3), "the loaded model has the very same weights"
    assert again.go_live()
    run = again.timeline.current
    assert [t.token_id for t in run.tokens] == tokens
    again.step_to(5, math.inf)
    again.close()
    forms = []
    saved_runs.ask(lambda store: forms.append(store.load(token, "r2")))
    assert forms[0].model.source is None, "the next time it is looked for where it is now"
    with pytest.raises(BadInputError, match=r"which is not there\. Put that file back, or load it from where"):
        check_model_file(replace(form, model=moved))


def test_weights_that_are_others_in_memory_only(left, visit, saved_runs):
    """The file is the run's again, and what was loaded in between is not."""
    token, _, _ = left
    again = visit()
    other = replace(again.model, file_sample="0" * 32)
    again.host._models[again.key] = other
    try:
        again.keeper.come_back(token, "r2", 3)
        again.keeper.bring_back()
        assert "has other weights than the one that made it" in again.error
        assert "r2" not in again.timeline
        assert "r2" in again.keeper.waiting
    finally:
        again.host._models[again.key] = again.host._alive[again.key]


def test_another_backend_is_said(left, visit, saved_runs):
    token, form, _ = left
    assert form.model.backend == "torch"
    for before, said in (("native", True), ("of a later version", False), ("torch", False), (None, False)):
        save(saved_runs, form, model=replace(form.model, backend=before))
        again = visit()
        again.keeper.come_back(token, "r2", 4)
        again.go_live()
        assert ("Before, it was computed by native, now by torch" in again.note) is said
        again.close()


def test_a_run_keeps_its_backend_whatever_is_chosen_for_new_ones(visit, monkeypatch):
    asked = []
    session = visit()
    session.new_run("Once", SHORT, chat=False, one_pass=True)
    session.step_to(3, math.inf)
    session.backend = "native"
    honest = session.engine_for
    monkeypatch.setattr(session, "engine_for", lambda *a: asked.append(a[2:]) or honest(*a))
    assert session.give_up_memory()
    session.wake_current()
    assert asked == [("torch",)]
    assert session.timeline.current.info.backend == "torch"
    session.backend = "auto"


def test_what_rounds_otherwise_says_so(visit):
    session = visit()
    session.new_run("Once", SHORT, chat=False, one_pass=True)
    info = session.timeline.current.info
    assert rounding(info) == ""
    assert "In packed one prefill rounds otherwise" in rounding(replace(info, dtype="packed"))


def test_a_home_that_nobody_has(left, monkeypatch):
    _, form, _ = left
    lost = replace(form, model=replace(form.model, source="~nobody-of-this-name/smol.gguf"))
    assert file_of(lost.model) is None
    assert saved_view(lost) is None
    assert where_it_is_now(lost, None, None) is lost
    with pytest.raises(BadInputError, match="which is not there"):
        check_model_file(lost)


def test_an_address_whose_file_cannot_be_read_stays_until_a_reload(app, open_app, saved_runs, monkeypatch):
    app.session.step_to(3, math.inf)
    address = {"s": app.session.keeper.token, "run": "r1", "step": "2"}
    close_tab()
    saved_runs.flush()

    def locked(question):
        raise StoreError("Saved runs: another program holds it: close that one.")

    with monkeypatch.context() as patch:
        patch.setattr(saved_runs, "ask", locked)
        again = open_app(**address).open_first("sampling")
        assert any("close that one. Then load this page again" in text for text in again.texts())
        assert again.address == address
        assert again.transport["comes_back"] == "r1", "the browser leaves the address alone too"
        again.run()
        assert again.address == address
    close_tab()
    again = open_app(**address).open_first("sampling")
    assert (again.transport["run"], again.transport["cursor"], again.transport["comes_back"]) == ("r1", 2, None)
    assert len(again.session.timeline.current.steps) == 3
    assert again.address == address


def test_who_begins_something_new_meanwhile_has_an_address_of_their_own(app, open_app, saved_runs, monkeypatch):
    app.session.step_to(3, math.inf)
    token = app.session.keeper.token
    close_tab()

    def locked(question):
        raise StoreError("Saved runs: another program holds it: close that one.")

    with monkeypatch.context() as patch:
        patch.setattr(saved_runs, "ask", locked)
        again = open_app(s=token, run="r1", step="2").run()
        again.session.new_run("Hi", SHORT, chat=False, one_pass=True)
        again.run()
    assert again.address["s"] == again.session.keeper.token != token
    assert again.run().transport["name"] == "Hi"
