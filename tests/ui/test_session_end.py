"""What a session gives back: the oldest runs when there are many, and everything when its tab has gone."""

import gc
import math
import threading
import weakref

import pytest

from miniinfer.config import SamplingParams
from miniinfer.errors import BadInputError
from miniinfer.figures.payload import unpack
from miniinfer.figures.workspace import Selection
from miniinfer.trace.run import ForceToken
from miniinfer.ui.ask import Ask
from miniinfer.ui.session import CLOSED, MAX_RUNS
from tests.ui.waiting import wait_until

SHORT = SamplingParams(max_new_tokens=4)


def run_ids(session):
    return [run.info.run_id for run in session.timeline]


def test_the_oldest_runs_are_let_go_and_their_blocks_come_back(session):
    oldest = session.timeline.current
    for _ in range(MAX_RUNS + 3):
        session.new_run("Hi", SHORT, chat=False, one_pass=True)
        session.step_to(1, math.inf)
        assert len(session.timeline) <= MAX_RUNS
    assert run_ids(session) == [f"r{n}" for n in range(5, 5 + MAX_RUNS)]
    assert session._engine.pool.num_used == MAX_RUNS, "one block each"
    assert set(session._engine.sequences) == set(run_ids(session))
    assert session.budget.used_bytes == sum(r.nbytes for run in session.timeline for r in run.records)
    assert oldest.records == []
    session._engine.check()


def test_a_branch_outlives_its_trunk(session):
    session.step_to(3, math.inf)
    session.branch(ForceToken(3, 11))
    branch = session.timeline.current
    rows = branch.rows_at(4).tobytes()
    for _ in range(MAX_RUNS - 1):
        session.new_run("Hi", SHORT, chat=False, one_pass=True)
    assert run_ids(session)[0] == "r2"
    session.timeline.open("r2")
    session.step_to(5, math.inf)
    assert len(branch.steps) == 5
    assert branch.rows_at(4).tobytes() == rows
    header, _ = unpack(session.message(Selection(details=(2,))))
    assert (header["run"]["parent"], header["error"]) == ("r1", None), "it still says where it came from"


def test_closing_frees_blocks_records_and_memory(new_session):
    session = new_session()
    session.go_live()
    session.new_run("word " * 100, SHORT, chat=False, one_pass=True)
    session.step_to(2, math.inf)
    session.branch(ForceToken(1, 11))
    session.step_to(3, math.inf)
    pool, engine = session._engine.pool, weakref.ref(session._engine)
    assert pool.num_used > 0
    assert session.budget.used_bytes > 0
    session.close()
    assert (pool.num_used, session.budget.used_bytes) == (0, 0)
    gc.collect()
    assert engine() is None, "nothing holds the KV cache's storage any more"
    session.close()  # twice does no harm


def test_a_closed_session_answers_a_late_ask_with_the_example_and_a_sentence(new_session):
    session = new_session()
    session.go_live()
    session.step_to(3, math.inf)
    session.close()
    session.handle(Ask(8, "r1", want=5, cursor=5))
    header, _ = unpack(session.message(Selection(ask=8, details=(1,))))
    assert header["error"] == CLOSED
    assert (header["run"]["id"], header["last"], header["cursor"]) == ("example", 32, 1)
    assert session.transport(True)["run"] == "example"
    with pytest.raises(BadInputError, match="lost its connection"):
        session.new_run("Hi", SHORT, chat=False, one_pass=True)
    assert session.go_live() is False
    session.request_model()
    assert not any(session.session_id in users for users in session.host._users.values())


def test_closing_in_the_middle_of_a_step_waits_for_it(session):
    run = session.timeline.current
    inside, closing = threading.Event(), threading.Event()
    recorder = run._recorder

    class Stopping:
        def __getattr__(self, name):
            return getattr(recorder, name)

        def __call__(self, stage, state):
            recorder(stage, state)
            if stage.layer == 3:
                inside.set()
                assert closing.wait(30)

    run._recorder = Stopping()
    stepping = threading.Thread(target=session.handle, args=(Ask(1, "r1", want=2, cursor=2),))
    stepping.start()
    assert inside.wait(30)
    pool = session._engine.pool
    ending = threading.Thread(target=session.close)
    ending.start()
    closing.set()
    stepping.join(30)
    ending.join(30)
    wait_until(lambda: not stepping.is_alive() and not ending.is_alive())
    assert pool.num_used == 0
    assert session.timeline.current.info.run_id == "example"
