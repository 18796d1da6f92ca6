"""What a session gives back: the oldest runs when there are many, and everything when its tab has gone."""

import gc
import math
import threading
import weakref

import pytest

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.kv_cache import KVCache
from miniinfer.errors import BadInputError
from miniinfer.faults.knock_out import Scaling, WhatIf
from miniinfer.figures.payload import unpack
from miniinfer.figures.workspace import Selection
from miniinfer.measure.progress import Progress
from miniinfer.trace.batch.run import BatchRun
from miniinfer.trace.batch.settings import BatchRequest, BatchSettings
from miniinfer.trace.inside.inside import StepInside
from miniinfer.trace.records import StepRecord
from miniinfer.trace.run import ForceToken
from miniinfer.ui.ask import Ask
from miniinfer.ui.cost.task import CostTask
from miniinfer.ui.sessions.session import CLOSED, MAX_RUNS
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


def test_closing_frees_every_engine_batch_what_if_and_measurement(new_session, monkeypatch):
    """Whatever was in the middle of something: counted by weak references to all that was made."""
    made: list[weakref.ref[object]] = []
    for kind in (Engine, KVCache, WhatIf, BatchRun, StepInside, StepRecord):

        def counted(self, *args, _init=kind.__init__, **kwargs):
            made.append(weakref.ref(self))
            _init(self, *args, **kwargs)

        monkeypatch.setattr(kind, "__init__", counted)
    session = new_session()
    task, trial = in_the_middle_of_everything(session)
    assert len([ref for ref in made if ref() is not None]) > 10
    assert session.memory_bytes() > 10 * 2**20
    session.close()
    task.join(30)
    assert (task.state, session.memory_bytes(), session.budget.used_bytes) == ("cancelled", 0, 0)
    del task, trial
    gc.collect()
    assert [ref() for ref in made if ref() is not None] == []


def in_the_middle_of_everything(session):
    """A branch, a step looked into, a batch, a what-if and a measurement, none of them over."""
    session.go_live()
    session.step_to(3, math.inf)
    session.branch(ForceToken(2, 11))
    session.step_to(4, math.inf)
    run = session.timeline.current
    session.inside.use(run, 3, lambda inside: inside.goto(5))
    session.batch.start([BatchRequest("a", "Hi", params=SHORT)], BatchSettings(), "one")
    session.batch.step_to(2, math.inf)
    scalings = (Scaling(3, heads=(1,)),)
    trial = session.compute(lambda: WhatIf(run.engine, run.seq, 4, scalings, everywhere=False))
    session.compute(trial.step)
    task = CostTask(session, "curve", run.info.run_id, lambda say: endless(Engine(session.model, EngineConfig())))
    wait_until(lambda: task.progress.share > 0)
    return task, trial


def endless(engine):
    """A measurement that never ends by itself, with an engine of its own."""
    engine.add_request([1, 2, 3], SamplingParams(max_new_tokens=10**6))
    while True:
        engine.step()
        yield Progress("measuring", 0.5)


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
