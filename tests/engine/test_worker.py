"""The engine thread: one at a time, in turn between keys, errors to whoever asked."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest
import torch

from miniinfer.engine.worker import EngineWorker
from miniinfer.errors import MiniInferError
from tests.ui.waiting import wait_until


@pytest.fixture
def worker():
    made = EngineWorker()
    yield made
    made.close()


def test_everything_runs_in_one_thread_under_inference_mode(worker: EngineWorker) -> None:
    def where() -> tuple[int, bool]:
        return threading.get_ident(), torch.is_inference_mode_enabled()

    found = {worker.call(where) for _ in range(5)}
    assert len(found) == 1
    [(thread, inference)] = found
    assert thread != threading.get_ident()
    assert inference


def test_results_and_errors_reach_the_caller(worker: EngineWorker) -> None:
    assert worker.submit(divmod, 7, 2).result() == (3, 1)
    with pytest.raises(ZeroDivisionError):
        worker.call(divmod, 7, 0)
    assert worker.call(divmod, 7, 2) == (3, 1), "it lives on"
    with pytest.raises(SystemExit):
        worker.call(exit)
    assert worker.call(divmod, 7, 2) == (3, 1)


def test_keys_take_turns(worker: EngineWorker) -> None:
    gate, order = threading.Event(), []
    worker.submit(gate.wait)
    futures = [worker.submit(order.append, f"a{n}", key="a") for n in range(4)]
    futures += [worker.submit(order.append, f"b{n}", key="b") for n in range(2)]
    futures += [worker.submit(order.append, f"c{n}", key="c") for n in range(1)]
    gate.set()
    for future in futures:
        future.result(timeout=10)
    assert order == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]


def test_a_quick_job_goes_first_but_never_two_of_a_key_in_a_row(worker: EngineWorker) -> None:
    gate, order = threading.Event(), []
    worker.submit(gate.wait)
    futures = [worker.submit(order.append, f"{key}-step", key=key) for key in "ab"]
    futures.append(worker.submit(order.append, "c-look", key="c", quick=True))
    gate.set()
    for future in futures:
        future.result(timeout=10)
    assert order == ["c-look", "a-step", "b-step"]
    gate.clear()
    order.clear()
    worker.submit(gate.wait)
    futures = [worker.submit(order.append, f"{key}-step", key=key) for key in "ab"]
    futures.append(worker.submit(order.append, "c-look", key="c", quick=True))
    gate.set()
    for future in futures:
        future.result(timeout=10)
    assert order == ["a-step", "b-step", "c-look"], "it went first a moment ago"
    gate.clear()
    worker.submit(gate.wait)
    futures = [worker.submit(order.append, name, key="d", quick=name == "quick") for name in ("slow", "quick")]
    gate.set()
    for future in futures:
        future.result(timeout=10)
    assert order[-2:] == ["slow", "quick"], "what a key asked for first is done first"


def test_a_call_from_inside_does_not_wait_for_itself(worker: EngineWorker) -> None:
    assert worker.submit(lambda: worker.call(divmod, 7, 2)).result(timeout=10) == (3, 1)


def test_a_queued_job_can_be_cancelled(worker: EngineWorker) -> None:
    gate, ran = threading.Event(), []
    worker.submit(gate.wait)
    future = worker.submit(ran.append, 1)
    assert future.cancel()
    gate.set()
    worker.call(int)
    assert ran == []


def test_close_lets_the_running_job_end_and_cancels_the_rest() -> None:
    worker = EngineWorker()
    started, gate = threading.Event(), threading.Event()

    def job() -> str:
        started.set()
        gate.wait()
        return "done"

    running = worker.submit(job)
    started.wait()
    queued = worker.submit(int)
    threading.Timer(0.05, gate.set).start()
    worker.close()
    assert running.result() == "done"
    with pytest.raises(CancelledError):
        queued.result()
    with pytest.raises(MiniInferError, match="shut down"):
        worker.submit(int)
    worker.close()


def test_others_come_in_between_the_parts_of_a_long_job_and_it_goes_on_all_the_same(worker: EngineWorker) -> None:
    gate, order = threading.Event(), []

    def long(name: str):
        for part in range(3):
            order.append(f"{name}{part}")
            yield
        return name

    worker.submit(gate.wait)
    asked = [worker.submit(long, name, key=name) for name in "AB"]
    short = [worker.submit(order.append, f"s{n}", key=n) for n in range(11)]
    gate.set()
    assert [future.result(timeout=10) for future in asked] == ["A", "B"]
    for future in short:
        future.result(timeout=10)
    # Both begin when it is their turn. Then the first goes on after each four others, to its end, and so the second.
    assert order == [
        "A0", "B0", "s0", "s1", "s2", "s3", "A1", "s4", "s5", "s6", "s7", "A2", "s8", "s9", "s10", "B1", "B2",
    ]  # fmt: skip
    assert worker.num_waiting == 0


def test_an_error_in_a_part_reaches_the_caller_and_others_go_on(worker: EngineWorker) -> None:
    def fails():
        yield
        raise ValueError("in its second part")

    failing, after = worker.submit(fails, key="a"), worker.submit(lambda: 7, key="b")
    with pytest.raises(ValueError, match="second part"):
        failing.result(timeout=10)
    assert after.result(timeout=10) == 7
    assert worker.call_in_parts(lambda: (x for x in ())) is None
    nested = worker.call(lambda: worker.call(fails_not))
    assert nested == "done", "in the thread itself all parts are done at once"


def fails_not():
    yield
    return "done"


def test_closing_gives_up_what_has_begun() -> None:
    worker, gate, begun, undone = EngineWorker(), threading.Event(), threading.Event(), []

    def long():
        try:
            begun.set()
            yield
            gate.wait(10)
            yield
        finally:
            undone.append(threading.current_thread().name)

    asked = worker.submit(long)
    assert begun.wait(10)
    closing = threading.Thread(target=worker.close)
    closing.start()
    wait_until(lambda: worker._closed)
    gate.set()
    closing.join(10)
    with pytest.raises(MiniInferError, match="shut down"):
        asked.result(timeout=10)
    assert undone == ["engine"], "in its own thread"
