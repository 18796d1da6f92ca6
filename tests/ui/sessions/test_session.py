"""What one user can do to their runs: live, new, branch, step; and that what fails changes nothing."""

import math

import pytest

from miniinfer.config import SamplingParams
from miniinfer.errors import BadInputError, MiniInferError, OutOfBlocksError
from miniinfer.figures.payload import unpack
from miniinfer.figures.workspace import ExactAsk, HeadAsk, Selection
from miniinfer.hosting import Hosting
from miniinfer.trace.live_run import LiveRun
from miniinfer.ui.ask import Ask
from miniinfer.ui.sessions import session as session_module
from miniinfer.ui.sessions.model_host import ModelHost
from miniinfer.ui.sessions.run_facts import name_of
from miniinfer.ui.sessions.session import Session, recorded_example, short_name

GREEDY = SamplingParams(temperature=0, max_new_tokens=8)


def ids(run):
    return [t.token_id for t in run.tokens]


def snapshot(session):
    """All that a failing request must leave alone."""
    line = session.timeline
    return (
        line.current.info.run_id, line.cursor, [(r.info.run_id, ids(r), len(r.steps), r.finish_reason) for r in line],
        session._engine.pool.num_used, session.budget.used_bytes,
    )  # fmt: skip


def header(session, **selection):
    return unpack(session.message(Selection(**selection)))[0]


def test_a_new_session_shows_the_recorded_example_at_its_first_step():
    session = Session(ModelHost())
    found = header(session)
    assert (found["run"]["id"], found["run"]["kind"], found["last"], found["cursor"]) == ("example", "recorded", 32, 1)
    assert set(found["source"].values()) == {"recorded"}
    assert session.go_live() is False, "no model is there"
    session.handle(Ask(1, "example", want=20, cursor=20))
    assert session.timeline.cursor == 20
    session.handle(Ask(2, "example", force=(1, 5)))
    assert "recorded run cannot branch" in session.error
    session.handle(Ask(3, "example", cursor=3))
    assert session.error is None, "an error is about the last ask"
    with pytest.raises(BadInputError, match="once a model is loaded"):
        session.new_run("Hi", GREEDY, chat=False, one_pass=True)


def test_going_live_keeps_the_cursor_and_gives_the_recorded_tokens(new_session):
    session = new_session()
    session.timeline.cursor = 7
    assert session.go_live()
    run, recorded = session.timeline.current, recorded_example()
    assert isinstance(run, LiveRun)
    assert (session.timeline.cursor, len(run.steps), len(session.timeline)) == (7, 7, 1)
    assert run.info.default_head == recorded.info.default_head
    assert (run.info.prompt, run.info.params) == (recorded.info.prompt, recorded.info.params)
    session.step_to(32, math.inf)
    compared = 0
    for mine, theirs in zip(run.steps, recorded.steps, strict=True):
        # Another machine may add in another order: a coin this close to the edge of its token could land beside it.
        shown = recorded.next_token(theirs.step)
        if min(shown.coin - shown.lo, shown.hi - shown.coin) < 1e-4:
            break
        assert mine.coin == theirs.coin
        assert mine.token_id == theirs.token_id
        assert mine.logprob == pytest.approx(theirs.logprob, abs=1e-3)
        compared += 1
    assert compared >= 20
    assert session.go_live() is False, "it is live already"


def test_a_run_that_the_user_made_is_not_replaced_by_going_live(new_session):
    session = new_session()
    session.new_run("Hi", GREEDY, chat=False, one_pass=True)
    assert session.go_live() is False
    assert [r.info.kind for r in session.timeline] == ["recorded", "live"]


def test_a_new_run_starts_at_its_prompt_with_an_empty_cache_and_the_old_one_is_kept(session):
    session.new_run("The quick brown fox", GREEDY, chat=False, one_pass=True)
    found = header(session)
    assert [r["id"] for r in found["runs"]] == ["r1", "r2"]
    assert (found["run"]["id"], found["last"], found["cursor"]) == ("r2", 0, 0)
    assert [t[0] for t in found["tokens"]] == [504, 2365, 6354, 16438]
    assert session.timeline.current.seq.num_computed_tokens == 0
    session.handle(Ask(1, open="r1"))
    assert (session.timeline.current.info.run_id, session.timeline.cursor) == ("r1", 1)


def test_prefill_in_one_pass_and_token_by_token_give_the_same_tokens(session):
    runs = []
    for one_pass in (True, False):
        session.new_run("2, 4, 6, 8, 10,", GREEDY, chat=False, one_pass=one_pass)
        session.step_to(100, math.inf)
        runs.append(session.timeline.current)
    whole, pieces = runs
    assert [m.num_scheduled for m in pieces.steps] == [1] * 15 + [1] * 7
    assert [m.token_id for m in pieces.steps[:14]] == [None] * 14
    assert [m.num_scheduled for m in whole.steps] == [15] + [1] * 7
    assert ids(whole) == ids(pieces)
    assert {whole.finish_reason, pieces.finish_reason} == {"length"}


def test_a_run_of_no_new_tokens_computes_its_prompt_and_ends(session):
    session.new_run("Hi", SamplingParams(max_new_tokens=0), chat=False, one_pass=True)
    session.step_to(5, math.inf)
    run = session.timeline.current
    assert run.finish_reason == "length"
    assert session.timeline.cursor == len(run.steps) <= 1
    assert header(session, details=(1,))["run"]["finished"] == "length"


def test_chat_uses_the_template(session):
    session.new_run("Hi", GREEDY, chat=True, one_pass=True)
    run = session.timeline.current
    assert run.info.num_prompt_tokens == 31
    assert run.tokens[0].text == "<|im_start|>"
    assert header(session)["run"]["chat"] is True


@pytest.mark.parametrize(
    ("prompt", "chat", "sentence"),
    [("", False, "empty"), ("a" * 100_001, False, "100,001 characters"), ("word " * 9000, False, "context|positions")],
)  # fmt: skip
def test_a_prompt_that_cannot_run_is_a_sentence_and_nothing_has_changed(session, prompt, chat, sentence):
    before = snapshot(session)
    with pytest.raises(MiniInferError, match=sentence):
        session.new_run(prompt, GREEDY, chat=chat, one_pass=True)
    assert snapshot(session) == before
    session.step_to(2, math.inf)
    assert len(session.timeline.current.steps) == 2


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (Ask(1, "r1", force=(0, 5)), "1 to 1"),
        (Ask(1, "r1", force=(2, 5)), "1 to 1"),
        (Ask(1, "r1", force=(1, 49152)), "0 to 49151"),
        (Ask(1, "r1", force=(1, 2**31 - 1)), "0 to 49151"),
        (Ask(1, open="r99"), "no run 'r99'"),
    ],
)  # fmt: skip
def test_an_ask_that_cannot_be_is_a_sentence_and_nothing_has_changed(session, ask, sentence):
    before = snapshot(session)
    session.handle(ask)
    assert sentence in session.error
    assert header(session)["error"] == session.error
    assert snapshot(session) == before


def test_an_ask_about_a_run_that_is_gone_does_nothing(session):
    before = snapshot(session)
    session.handle(Ask(4, "example", want=9, cursor=9))  # on its way while the example went live
    assert snapshot(session) == before
    assert session.error is None


@pytest.mark.parametrize("ask", [Ask(4, "r1", want=9, cursor=9), Ask(4, "r1", cursor=1), Ask(4, "r1", force=(1, 5))])
def test_an_ask_on_its_way_while_a_new_run_is_made_does_not_put_the_old_one_in_its_place(session, ask):
    session.new_run("One two", SamplingParams(), chat=False, one_pass=True)
    before = snapshot(session)
    session.handle(ask)
    assert snapshot(session) == before
    assert session.timeline.current.info.run_id == "r2"


def test_what_a_run_does_not_have_is_a_sentence_or_absent(session):
    for selection in (
        Selection(details=(0, 2, 99), have_meta=99, have_tokens=99, have_kv=99),
        Selection(head=HeadAsk(30, 0, 0, 9)),
        Selection(head=HeadAsk(0, 9, 0, 9)),
        Selection(row=5),
        Selection(head=HeadAsk(29, 8, 99, 9), exact=ExactAsk(0, 0, 99), probs_from=99),
    ):
        found, blobs = unpack(session.message(selection))
        assert found["error"] is None
        assert not {"details", "row"} & set(found)
        assert all(blob.size == 0 for name, blob in blobs.items() if name != "kv")


def test_a_full_cache_is_a_sentence_and_the_run_stays_as_far_as_it_came(new_session, monkeypatch):
    session = new_session()
    monkeypatch.setattr(session.host, "hosting", Hosting(session_kv_bytes=2 * 16 * 46_080))  # two blocks
    session.new_run("word" + " word" * 29, SamplingParams(temperature=0), chat=False, one_pass=True)
    session.handle(Ask(1, "r1", want=1))
    run = session.timeline.current
    assert (len(run.steps), run.steps[0].context_len) == (1, 30)
    session.step_to(3, math.inf)
    assert run.steps[-1].context_len == 32
    before = snapshot(session)
    session.handle(Ask(2, "r1", want=4, cursor=4))
    assert "KV cache" in session.error
    assert snapshot(session) == before
    with pytest.raises(OutOfBlocksError):
        session.new_run("word " * 40, GREEDY, chat=False, one_pass=True)
    assert snapshot(session) == before


def test_queries_that_were_dropped_are_a_sentence_and_the_rest_of_the_message_comes(session):
    session.step_to(3, math.inf)
    session.budget.limit_bytes = 0
    session.step_to(4, math.inf)
    found, blobs = unpack(session.message(Selection(details=(2,))))
    assert "trace budget" in found["error"]
    assert (found["last"], len(found["meta"]), len(found["tokens"])) == (4, 4, 9)
    assert set(blobs) == {"kv"}
    assert unpack(session.message(Selection(details=(4,))))[0]["error"] is None


def test_stepping_far_answers_within_its_time_and_goes_on_when_asked_again(session, monkeypatch):
    class Clock:
        now = 0.0

        def monotonic(self):
            self.now += 0.02
            return self.now

    monkeypatch.setattr(session_module, "time", Clock())
    monkeypatch.setattr(session_module, "STEPPING_SECONDS", 0.15)
    run = session.timeline.current
    session.handle(Ask(1, "r1", want=1000, cursor=1000))
    after_one = len(run.steps)
    assert 1 < after_one < 10, "0.15 s at 0.02 s a look at the clock"
    assert session.timeline.cursor == after_one
    session.handle(Ask(2, "r1", want=after_one, cursor=2))
    assert (len(run.steps), session.timeline.cursor) == (after_one, 2), "asking for what exists computes nothing"
    for number in range(3, 20):
        session.handle(Ask(number, "r1", want=1000))
    assert run.finish_reason == "length"
    assert len(run.steps) == 32
    session.handle(Ask(20, "r1", want=1000, cursor=5))
    assert (len(run.steps), session.timeline.cursor) == (32, 5)


def test_short_names_are_one_line():
    assert short_name("a\n  b\tc") == "a b c"
    assert short_name("x" * 41) == "x" * 39 + "…"


@pytest.mark.parametrize(
    ("prompt", "name"), [("Hi  you\n", "Hi you"), ("  ", "␣␣"), ("\n", "↵"), ("", "empty message")]
)
def test_no_run_is_nameless(prompt, name):
    assert name_of(prompt) == name
