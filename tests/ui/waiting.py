"""Waiting for another thread, with an end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Ask until it is true; the time allowed is far above what it takes, so that a busy machine does not matter."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "this took too long"
        time.sleep(0.005)


def at_once(*jobs: Callable[[], object]) -> None:
    """Run each job in a thread of its own, all released at the same moment; an error of any is raised here."""
    barrier = threading.Barrier(len(jobs))
    errors: list[BaseException] = []

    def start(job: Callable[[], object]) -> None:
        barrier.wait()
        try:
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=start, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread did not end: they may wait for each other"
    if errors:
        raise errors[0]
