"""What is saved comes back as it was; what could not have been saved is a sentence."""

import json
import math
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miniinfer.config import BACKENDS
from miniinfer.errors import BadInputError
from miniinfer.store.saved_run import SavedRun
from tests.store.saved import saved


def test_a_run_comes_back_as_it_was():
    branch = saved(parent="r0", fork_step=1, forced_token=5)
    for run in (saved(), branch, saved(steps=(), cursor=0, finish_reason="abort")):
        assert SavedRun.from_json(run.to_json()) == run
    assert saved().output_ids == (7, 9)


def test_a_run_that_was_saved_before_recording_was_timed_can_be_read():
    value = json.loads(saved().to_json())
    for step in value["steps"]:
        del step["recording_ms"]
    assert [step.recording_ms for step in SavedRun.from_json(json.dumps(value)).steps] == [None, None]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "else"}, "not a saved MiniInfer run"), ({"version": 2}, "version 2"), ({"more": 1}, "damaged"),
        ({"prompt_ids": []}, "damaged"), ({"prompt_ids": [1, -2, 3]}, "damaged"),
        ({"prompt_ids": [1.0, 2, 3]}, "damaged"),
        ({"cursor": 3}, "damaged"), ({"cursor": True}, "damaged"), ({"created": float("nan")}, "damaged"),
        ({"finish_reason": "boredom"}, "damaged"), ({"parent": "r0"}, "damaged"), ({"name": "x" * 300}, "damaged"),
        ({"params": []}, "damaged"), ({"params": [{"temperature": -1}]}, "temperature"),
        ({"params": [{"x": 1}]}, "damaged"),
        ({"steps": [{"num_scheduled": 1}]}, "damaged"), ({"model": "SmolLM2"}, "damaged"),
    ],
)  # fmt: skip
def test_what_could_not_have_been_saved_is_a_sentence(change, words):
    value = json.loads(saved().to_json()) | change
    with pytest.raises(BadInputError, match=words):
        SavedRun.from_json(json.dumps(value))


def test_tokens_must_come_after_the_prompt():
    value = json.loads(saved().to_json())
    value["steps"][0]["num_scheduled"] = 2
    with pytest.raises(BadInputError, match="before the prompt was through"):
        SavedRun.from_json(json.dumps(value))


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda x: st.lists(x, max_size=4) | st.dictionaries(st.text(max_size=8), x, max_size=4), max_leaves=6,
)  # fmt: skip
FIELDS = sorted(json.loads(saved().to_json()))


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(st.sampled_from(FIELDS), anything, max_size=3), st.integers(0, 2000), st.text(max_size=3))
def test_damage_is_never_more_than_a_sentence(changes, at, put_in):
    whole = json.dumps(json.loads(saved().to_json()) | changes)
    for text in (whole, whole[:at], whole[:at] + put_in + whole[at + 1 :], "[" * 100_000):
        with suppress(BadInputError):
            run = SavedRun.from_json(text)
            assert SavedRun.from_json(run.to_json()) == run


def test_a_forced_token_that_every_filter_had_cut_keeps_its_logprob_and_the_text_is_json():
    step = replace(saved().steps[1], logprob=-math.inf)
    run = saved(steps=(saved().steps[0], step))
    text = run.to_json()
    assert SavedRun.from_json(text) == run
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_a_run_of_no_new_tokens_ends_without_one():
    step = replace(saved().steps[0], token_id=None, logprob=None, coin=None)
    run = saved(steps=(step,), cursor=1, finish_reason="length")
    assert SavedRun.from_json(run.to_json()) == run


@pytest.mark.parametrize("long", ["x" * 100_000, [1] * 5000, 10**400, {"a" * 900: {}}])
def test_a_sentence_stays_one_however_long_what_it_names_is(long):
    value = json.loads(saved().to_json())
    changes = [{"version": long}, {"name": long}, {"cursor": long}, {long if isinstance(long, str) else "more": 1}]
    changes += [{"params": [value["params"][0] | {name: long}]} for name in ("temperature", "seed", "order", "top_k")]
    for change in changes:
        with pytest.raises(BadInputError) as caught:
            SavedRun.from_json(json.dumps(value | change))
        assert len(str(caught.value)) < 400


def test_a_run_of_any_backend_comes_back_also_of_one_that_is_not_known_yet():
    for name in (*BACKENDS, "of a later version", None):
        run = saved(model=replace(saved().model, backend=name))
        assert SavedRun.from_json(run.to_json()) == run
    value = json.loads(saved().to_json())
    del value["model"]["backend"]
    assert SavedRun.from_json(json.dumps(value)).model.backend is None
