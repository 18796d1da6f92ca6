"""The saved form of a run, made anew after each step: what was there is taken over, and the text is the same."""

import math

from miniinfer.config import SamplingParams
from miniinfer.store.saved_run import SavedModel, SavedRun
from miniinfer.trace.run import ChangeParams, ForceToken
from miniinfer.ui.saving.form import saved_form

MODEL = SavedModel("a model", None, "cpu", "float32", 7)


def form_of(run, before=None):
    return saved_form(run, "token", MODEL, 1.0, 0, before=before)


def test_earlier_steps_are_taken_over_with_their_text(session):
    run = session.timeline.current
    session.step_to(3, math.inf)
    first = form_of(run)
    first.to_json()
    texts = [step.json for step in first.steps]
    session.step_to(5, math.inf)
    second = form_of(run, first)
    assert len(second.steps) == 5
    for i in range(3):
        assert second.steps[i] is first.steps[i]
        assert second.steps[i].json is texts[i]
    assert second == form_of(run)
    assert SavedRun.from_json(second.to_json()) == second
    assert second.to_json() == form_of(run).to_json()


def test_a_step_whose_settings_moved_is_written_anew(session):
    """The settings in force stand last: so those of the steps before may move."""
    session.step_to(2, math.inf)
    session.branch(ChangeParams(2, SamplingParams(temperature=0.5, max_new_tokens=9)))
    run = session.timeline.current
    before = form_of(run)
    run.info = type(run.info)(**{**vars(run.info), "params": SamplingParams(temperature=1.5, max_new_tokens=9)})
    session.step_to(4, math.inf)
    form = form_of(run, before)
    used = [form.params[step.params] for step in form.steps]
    assert used == list(run.step_params)
    assert form == form_of(run)


def test_a_run_that_slept_is_saved_as_before(session):
    session.step_to(3, math.inf)
    session.branch(ForceToken(2, 11))
    session.step_to(4, math.inf)
    run = session.timeline.current
    awake = form_of(run)
    assert session.give_up_memory()
    assert run.asleep
    assert form_of(run, awake) == form_of(run) == awake
