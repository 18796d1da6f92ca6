"""The engine thread: one at a time, in turn between keys, errors to whoever asked."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest
import torch

from miniinfer.engine.worker import EngineWorker
from miniinfer.errors import MiniInferError


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
