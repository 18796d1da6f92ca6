"""Idle sessions give up caches and records to others, and compute them again, with the same tokens, on return."""

import gc
import math
import threading
import time
import weakref
from unittest.mock import patch

import numpy as np
import pytest

from miniinfer.config import SamplingParams
from miniinfer.errors import BadInputError
from miniinfer.figures.payload import unpack
from miniinfer.figures.workspace import Selection
from miniinfer.trace.batch.settings import BatchRequest, BatchSettings
from miniinfer.trace.run import ChangeParams, ForceToken
from miniinfer.ui.ask import Ask
from miniinfer.ui.sessions.open_sessions import BUSY_SECONDS
from tests.ui.sessions.test_session_threads import PROMPTS, outcome, started

HOT = SamplingParams(temperature=1.1, seed=7, max_new_tokens=10)


def idle(session, seconds=10 * BUSY_SECONDS):
    """It was used so long ago; below 0: it is in use for as long as a slow machine may need."""
    session.last_used = time.monotonic() - seconds


def asleep(session):
    return [run.info.run_id for run in session.timeline if getattr(run, "asleep", False)]


def test_a_run_that_sleeps_holds_nothing_and_says_all_that_is_small(session):
    session.step_to(4, math.inf)
    run = session.timeline.current
    before, listed = outcome(run), session.transport(True)["runs"]
    engine, record = weakref.ref(run.engine), weakref.ref(run.records[2])
    assert session.memory_bytes() > 10 * 2**20
    assert session.give_up_memory()
    gc.collect()
    assert (session.memory_bytes(), session.budget.used_bytes) == (0, 0)
    assert engine() is None
    assert record() is None
    assert (outcome(run), session.timeline.cursor, run.asleep) == (before, 4, True)
    assert [step.token_id for step in run.known_steps()] == [meta.token_id for meta in run.steps]
    assert run.asleep, "none of these questions woke it"
    assert session.transport(True)["runs"] == listed


def test_in_the_middle_of_a_run_it_comes_back_at_its_cursor_and_goes_on_to_the_same_end(new_session):
    alone = new_session()
    alone.new_run(PROMPTS[1], HOT, chat=False, one_pass=True)
    alone.step_to(10, math.inf)
    whole = alone.timeline.current
    session = new_session()
    session.new_run(PROMPTS[1], HOT, chat=False, one_pass=True)
    session.step_to(6, math.inf)
    session.timeline.cursor = 3
    before = session.timeline.current.rows_at(7)
    assert session.give_up_memory()
    header, _ = unpack(session.message(Selection(details=(3,))))
    assert (header["cursor"], header["last"], header["error"]) == (3, 6, None)
    assert "was lent to others. It is back at step 3" in header["note"]
    assert header["run"]["resumed"] == 6, "what is shown of these steps is marked as computed again"
    again = session.timeline.current
    assert np.abs(again.rows_at(7).astype(int) - before.astype(int)).max() <= 1
    session.step_to(10, math.inf)
    assert [t.token_id for t in again.tokens] == [t.token_id for t in whole.tokens]
    assert (again.finish_reason, again.steps[-1].coin) == (whole.finish_reason, whole.steps[-1].coin)
    session._engine.check()


def test_the_ask_that_wakes_it_is_answered_and_the_note_says_why_it_took_longer(session):
    session.step_to(2, math.inf)
    session.give_up_memory()
    session.handle(Ask(5, "r1", want=3, cursor=3))
    header, _ = unpack(session.message(Selection(ask=5, details=(3,))))
    assert (header["cursor"], header["last"]) == (3, 3)
    assert "It is back at step 2" in header["note"]
    session.handle(Ask(6, "r1", want=4, cursor=4))
    assert session.note is None, "said once"


def test_a_long_run_wakes_in_parts_and_who_needs_it_meanwhile_does_the_rest(session):
    session.new_run("word " * 40, HOT, chat=False, one_pass=True)
    session.step_to(2, math.inf)
    run, worker = session.timeline.current, session.host.worker
    before = outcome(run)
    assert session.give_up_memory()
    work = session.waking._awaken(run)
    worker.call(lambda: [next(work), next(work)])
    assert run.asleep
    worker.submit(lambda: None, key="somebody else").result(30)  # comes in between
    assert worker.call(lambda: len(run.records)) == 2, "asked for in the engine's thread: it cannot wait for the rest"
    assert not run.asleep
    worker.call(lambda: list(work))
    assert list(session.waking.woken) == ["r2"]
    assert outcome(run) == before
    session._engine.check()


def test_a_tree_comes_back_as_a_tree(session):
    session.step_to(6, math.inf)
    session.branch(ForceToken(3, 11))
    session.step_to(7, math.inf)
    session.branch(ChangeParams(5, HOT))
    session.step_to(9, math.inf)
    before = {run.info.run_id: outcome(run) for run in session.timeline}
    used = session._engine.pool.num_used
    assert session.give_up_memory()
    assert asleep(session) == ["r1", "r2", "r3"]
    session.handle(Ask(1, open="r2"))
    session.handle(Ask(2, "r2", want=8, cursor=8))
    assert asleep(session) == ["r3"], "the run in view and the trunk whose blocks it shares"
    session.handle(Ask(3, open="r3"))
    session.message(Selection(details=(9,)))
    assert asleep(session) == []
    runs = {run.info.run_id: run for run in session.timeline}
    assert runs["r1"].engine is runs["r2"].engine is runs["r3"].engine
    assert session._engine.pool.num_used == used
    assert {name: outcome(run) for name, run in runs.items() if name != "r2"} == {
        name: seen for name, seen in before.items() if name != "r2"
    }
    assert outcome(runs["r2"])[1][:-1] == before["r2"][1]
    session._engine.check()


def test_a_branch_whose_trunk_was_let_go_and_runs_of_two_block_sizes_come_back(session):
    session.step_to(4, math.inf)
    session.branch(ForceToken(2, 11))
    session.step_to(4, math.inf)
    session.forget("r1")
    session.choose_block_size(8)
    session.new_run(PROMPTS[0], HOT, chat=False, one_pass=False)
    session.step_to(9, math.inf)
    before = [outcome(run) for run in session.timeline]
    assert session.give_up_memory()
    for run in session.timeline:
        session.handle(Ask(1, open=run.info.run_id))
        session.message(Selection())
    assert asleep(session) == []
    assert [outcome(run) for run in session.timeline] == before
    assert {run.engine.config.block_size for run in session.timeline} == {8, 16}


def test_it_is_saved_renamed_and_deleted_without_waking(session):
    session.step_to(3, math.inf)
    run = session.timeline.current
    session.give_up_memory()
    assert session.rename("r1", "mine")
    assert (run.info.name, run.asleep) == ("mine", True)
    session.forget("r1")
    assert run.released
    assert session.timeline.current.info.kind == "recorded"
    with pytest.raises(BadInputError, match="let go"):
        run.engine  # noqa: B018


def test_a_session_that_closes_asleep_leaves_nothing(new_session):
    session = new_session()
    session.go_live()
    session.step_to(3, math.inf)
    session.give_up_memory()
    session.close()
    assert session.memory_bytes() == 0
    assert session not in session.host.sessions._there()


# Who gives way


def test_the_one_idle_longest_gives_way_and_nobody_who_has_just_asked(new_session):
    sessions = [new_session() for _ in range(3)]
    for prompt, session in zip((*PROMPTS, PROMPTS[0]), sessions, strict=True):
        started(session, prompt)
        session.step_to(4, math.inf)
    first, second, third = sessions
    everybody = first.host.sessions
    everybody.memory_bytes, normal = everybody.used_bytes() - 1, everybody.memory_bytes
    try:
        third.step_to(5, math.inf)
        for session in sessions:
            idle(session, -1000)
        everybody.make_room(third)
        assert [s.timeline.current.asleep for s in sessions] == [False] * 3, "all have asked for something just now"
        idle(first, 100)
        idle(second, 50)
        evictions = everybody.num_evictions
        third.handle(Ask(1, third.timeline.current.info.run_id, want=6, cursor=6))
        assert [s.timeline.current.asleep for s in sessions] == [True, False, False]
        assert everybody.num_evictions == evictions + 1
        assert everybody.used_bytes() <= everybody.memory_bytes
        idle(third, 20)
        first.handle(Ask(2, first.timeline.current.info.run_id, want=5, cursor=5))
        assert [s.timeline.current.asleep for s in sessions] == [False, True, False], "second was idle for longer"
    finally:
        everybody.memory_bytes = normal


def test_a_session_in_the_middle_of_something_is_passed_over(session):
    session.step_to(2, math.inf)
    held, done = threading.Event(), threading.Event()

    def hold():
        with session.lock:
            held.set()
            assert done.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(30)
    assert session.give_up_memory() is False
    done.set()
    thread.join(30)
    assert asleep(session) == []


def test_a_batch_is_let_go_and_that_is_said(session):
    session.batch.start([BatchRequest("a", "Hi", params=SamplingParams(max_new_tokens=4))], BatchSettings(), "one")
    session.batch.step_to(2, math.inf)
    assert session.give_up_memory()
    assert (session.batch.run, session.memory_bytes()) == (None, 0)
    session.message(Selection())
    assert "batch was lent to others" in session.note


def test_everybody_stepping_while_memory_is_short_each_get_their_solo_run(new_session):
    """More sessions than memory, in threads: runs sleep and wake all the time."""
    alone = []
    for seed, prompt in enumerate(PROMPTS):
        session = new_session()
        run = started(session, prompt, seed=seed)
        session.step_to(8, math.inf)
        alone.append([t.token_id for t in run.tokens])
        session.close()
    sessions = [new_session() for _ in PROMPTS]
    runs = [started(s, prompt, seed=seed) for seed, (s, prompt) in enumerate(zip(sessions, PROMPTS, strict=True))]
    for number in range(1, 9):
        threads = [threading.Thread(target=s.handle, args=(Ask(number, "r1", want=number),)) for s in sessions]
        lender = threading.Thread(target=lambda: [s.give_up_memory() for s in sessions])
        for thread in (*threads, lender):
            thread.start()
        for thread in (*threads, lender):
            thread.join(30)
    assert [s.error for s in sessions] == [None, None]
    assert [[t.token_id for t in run.tokens] for run in runs] == alone


def test_others_come_in_between_the_parts_of_waking_and_one_that_needs_the_run_goes_on_with_it(new_session):
    session, other = new_session(), new_session()
    run = started(session, "word " * 30)
    session.step_to(3, math.inf)
    before = outcome(run)
    order = []
    honest = session.waking._awaken

    def told(run):
        for share in honest(run):
            order.append("part")
            if len(order) == 2:
                other.host.worker.submit(order.append, "other", key=other.session_id)
            yield share

    assert session.give_up_memory()
    with patch.object(session.waking, "_awaken", told):
        session.wake_current()
    assert 2 <= order.index("other") < len(order) - 1
    assert outcome(run) == before

    def in_between():
        work = session.waking._awaken(run)
        next(work), next(work)
        assert run.asleep
        assert len(run.records) == 3, "at once"
        return list(work)

    assert session.give_up_memory()
    assert session.in_engine(in_between) == []
    assert outcome(run) == before
    assert list(session.waking.woken) == [run.info.run_id]
    session._engine.check()


def test_a_run_that_is_let_go_while_it_wakes_leaves_nothing(new_session):
    session = new_session()
    run = started(session, "word " * 30)
    session.step_to(2, math.inf)
    assert session.give_up_memory()

    def let_go():
        work = session.waking._awaken(run)
        next(work)
        run.release()
        assert list(work) == []

    session.in_engine(let_go)
    assert session._engine.sequences == {}
    assert session._engine.pool.num_used == 0


def test_a_shutdown_in_the_middle_of_waking_gives_back_what_it_took(session):
    session.new_run("word " * 30, HOT, chat=False, one_pass=True)
    session.step_to(2, math.inf)
    run = session.timeline.current
    assert session.give_up_memory()

    def ended():
        work = session.waking._awaken(run)
        next(work)
        work.close()

    session.in_engine(ended)
    assert run.asleep
    assert session._engine.pool.num_used == 0
    session.wake_current()
    assert not run.asleep
