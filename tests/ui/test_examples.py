"""The six example prompts on the real model: each does what its title promises, with the settings of a first visit."""

import math

import numpy as np
import pytest

from miniinfer.config import SamplingParams
from miniinfer.trace.pooling import to_u8
from miniinfer.ui.examples import EXAMPLES

FACT, STORY, PATTERN, NUMBERS, EMOJI, CHAT = EXAMPLES
HALF = to_u8(np.array([0.5], np.float32))[0]


@pytest.fixture
def run_of(new_session):
    """Runs an example for some steps, greedily or with the settings of a first visit."""

    def run_of(example, steps, **settings):
        session = new_session()
        session.new_run(example.prompt, SamplingParams(**settings), chat=example.kind == "chat", one_pass=True)
        session.step_to(steps, math.inf)
        return session.timeline.current

    return run_of


def texts(run):
    return [t.text for t in run.tokens]


def output(run):
    return b"".join(t.data for t in run.tokens[run.info.num_prompt_tokens :])


def test_there_are_six_and_the_recorded_one_comes_first():
    assert len(EXAMPLES) == len({e.title for e in EXAMPLES}) == 6
    assert (FACT.prompt, FACT.kind) == ("The capital of France is", "raw")
    assert [e.kind for e in EXAMPLES] == ["raw"] * 5 + ["chat"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.title)
def test_each_runs_a_few_steps_and_has_something_to_see_on_the_first(run_of, example):
    run = run_of(example, 3)
    assert len(run.steps) == 3
    assert 4 <= run.info.num_prompt_tokens <= 45, "it fits the panels at a glance"
    layer, head = run.info.default_head
    row = run.rows_at(run.info.num_prompt_tokens - 1)[layer, head]
    assert row[1:-2].max() >= HALF, "the first head shown reads something farther back than the token before"


def test_a_fact_has_one_clear_winner(run_of):
    found = run_of(FACT, 1).next_token(1)
    assert found.tokens[0].text == " Paris"
    assert found.raw_probs[0] > 0.6
    assert found.raw_probs[0] > 8 * found.raw_probs[1]


def test_a_story_has_many_ways_to_go_on(run_of):
    found = run_of(STORY, 1).next_token(1)
    assert found.raw_probs[0] < 0.2
    assert found.num_kept > 50
    assert found.entropy_raw > 4
    stories = {output(run_of(STORY, 4, seed=seed)) for seed in range(4)}
    assert len(stories) == 4, "four seeds, four stories"


def test_in_a_repeated_pattern_attention_finds_the_copy(run_of):
    run = run_of(PATTERN, 1, temperature=0)
    words = texts(run)
    last = run.info.num_prompt_tokens - 1
    earlier = words.index(words[last])
    assert earlier < last
    rows = run.rows_at(last)
    after_copy = rows[:, :, earlier + 1]
    assert (after_copy == rows.max(axis=2)).any(), "some head looks most at what followed the earlier copy"
    layer, head = run.info.default_head
    assert after_copy[layer, head] == rows[layer, head].max() >= HALF, "and it is the head that is shown first"
    assert words[last + 1] == words[earlier + 1] == " river", "the model says it too"


def test_of_numbers_each_digit_is_a_token(run_of):
    run = run_of(NUMBERS, 4, temperature=0)
    digits = [t.text for t in run.tokens if any(c.isdigit() for c in t.text)]
    assert digits == ["2", "4", "6", "8", "1", "0", "1", "2"]
    assert output(run) == b" 12,"


def test_one_emoji_takes_several_tokens(run_of):
    run = run_of(EMOJI, 3, temperature=0)
    pieces = [t for t in run.tokens[: run.info.num_prompt_tokens] if t.partial]
    assert len(pieces) == 3
    assert b"".join(t.data for t in pieces).decode() == " 🦜"
    assert texts(run)[-3:] == ["<F0><9F>", "<A6>", "<9C>"], "the model builds one from pieces as well"
    assert output(run).decode() == "🦜"


def test_a_question_in_chat_is_wrapped_by_the_template_and_answered(run_of):
    run = run_of(CHAT, 32)
    prompt = texts(run)[: run.info.num_prompt_tokens]
    assert prompt[0] == "<|im_start|>"
    assert prompt.count("<|im_end|>") == 2, "the model's system message, and the user's"
    assert [t.control for t in run.tokens[:1]] == [True]
    assert b"cold" in output(run)
    assert run.finish_reason == "stop"
