"""One thread of torch for small work, and the usual number for whoever asks meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator

import pytest
import torch

from miniinfer.engine.torch_threads import one_thread, usual_threads
from miniinfer.engine.worker import EngineWorker


@pytest.fixture
def worker() -> Iterator[EngineWorker]:
    before, made = torch.get_num_threads(), EngineWorker()
    made.call(torch.set_num_threads, 3)
    yield made
    made.close()
    torch.set_num_threads(before)


def test_a_quick_job_has_one_thread_of_torch_and_the_next_job_all(worker: EngineWorker) -> None:
    assert worker.submit(torch.get_num_threads, quick=True).result() == 1
    assert worker.call(torch.get_num_threads) == 3


def test_a_quick_job_that_fails_puts_them_back(worker: EngineWorker) -> None:
    with pytest.raises(ZeroDivisionError):
        worker.submit(divmod, 7, 0, quick=True).result()
    with pytest.raises(SystemExit):
        worker.submit(exit, quick=True).result()
    assert worker.call(torch.get_num_threads) == 3


def test_all_parts_of_a_quick_job_have_one(worker: EngineWorker) -> None:
    def parts() -> Generator[None, None, list[int]]:
        seen = [torch.get_num_threads()]
        yield
        return [*seen, torch.get_num_threads()]

    assert worker.submit(parts, quick=True).result() == [1, 1]
    assert worker.call(torch.get_num_threads) == 3


def test_a_thread_that_begins_meanwhile_is_told_the_usual_number(worker: EngineWorker) -> None:
    """Torch tells it one, and goes on telling it so: the core would have no helper, this machine would be another."""
    found: list[int] = []

    def quick() -> None:
        other = threading.Thread(target=lambda: found.append(usual_threads()))
        other.start()
        other.join()

    worker.submit(quick, quick=True).result()
    assert found == [3]


def test_one_thread_in_another_changes_nothing(worker: EngineWorker) -> None:
    def nested() -> tuple[int, int]:
        with one_thread():
            with one_thread():
                pass
            inside = torch.get_num_threads()
        return inside, usual_threads()

    assert worker.call(nested) == (1, 3)
