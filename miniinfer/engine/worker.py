"""The one long-lived thread in which all model work of a process runs.

A thread keeps its own team of OpenMP helpers, so a new thread for each step would pay for a new team each time (the
same products took 15.1 ms in place of 11.3 ms). One thread also means that no two steps ever compete for the cores.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from miniinfer.engine.machine_faults import machine_fault
from miniinfer.errors import MiniInferError

T = TypeVar("T")

SLOW_SECONDS = 0.5  # whoever waits longer is told how many come first


@dataclass
class _Job:
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    future: Future[Any] = field(default_factory=Future)

    def run(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self.fn(*self.args)
        except BaseException as error:
            fault = machine_fault(error)  # also of what looks back at a step, and is no step
            if fault is not None:
                fault.__cause__ = error
            self.future.set_exception(fault or error)
        else:
            self.future.set_result(result)


class EngineWorker:
    """Runs functions one after another, under torch.inference_mode.

    Every key (a user, say) has a queue of its own, and the keys take turns: whoever queues a hundred steps keeps the
    others waiting for one of them at most. A quick job (what is shown of a step, after the step) goes first, but never
    two of a key in a row.
    """

    def __init__(self, name: str = "engine") -> None:
        self._queues: OrderedDict[Hashable, deque[_Job]] = OrderedDict()
        self._running: Hashable = None  # whose job it is that runs
        self._busy = False
        self._went_first: set[Hashable] = set()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, fn: Callable[..., T], *args: Any, key: Hashable = None, quick: bool = False) -> Future[T]:
        """Queue fn(*args) behind what this key has queued already. Raises MiniInferError if the worker is closed."""
        job = _Job(fn, args)
        with self._changed:
            if self._closed:
                raise MiniInferError("The engine has been shut down: start the app again.")
            self._queues.setdefault(key, deque()).append(job)
            if quick and key not in self._went_first and len(self._queues[key]) == 1:
                self._queues.move_to_end(key, last=False)
                self._went_first.add(key)
            else:
                self._went_first.discard(key)
            self._changed.notify()
        return job.future

    def call(
        self, fn: Callable[..., T], *args: Any, key: Hashable = None,
        slow: Callable[[Future[T]], object] | None = None, quick: bool = False,
    ) -> T:
        """Run fn(*args) in the thread and wait for its result; its exception is raised here.

        slow: called with its future, in the thread that waits, if the result is not there within half a second.
        """
        if threading.current_thread() is self._thread:
            return fn(*args)  # already there: waiting for oneself would never end
        future = self.submit(fn, *args, key=key, quick=quick)
        if slow is not None and not wait([future], SLOW_SECONDS).done:
            slow(future)
        return future.result()

    @property
    def num_waiting(self) -> int:
        """Jobs that have not begun."""
        with self._changed:
            return sum(map(len, self._queues.values()))

    def place_of(self, key: Hashable) -> int:
        """How many other keys come before the next job of this one, the one that runs included; 0 if it has none."""
        with self._changed:
            if key not in self._queues:
                return 0
            before = next(place for place, other in enumerate(self._queues) if other == key)
            return before + (self._busy and self._running != key)

    def close(self) -> None:
        """Let the running function end, cancel the queued ones, and stop the thread."""
        with self._changed:
            self._closed = True
            for queue in self._queues.values():
                for job in queue:
                    job.future.cancel()
            self._queues.clear()
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _work(self) -> None:
        with torch.inference_mode():
            while (job := self._next_job()) is not None:
                job.run()
                self._busy = False
                del job  # while the thread waits it holds nothing of it: a model, say, or a user's whole engine

    def _next_job(self) -> _Job | None:
        """Wait for work and take one job from the key whose turn it is. None once the worker is closed."""
        with self._changed:
            while not self._queues:
                if self._closed:
                    return None
                self._changed.wait()
            key, queue = self._queues.popitem(last=False)
            job = queue.popleft()
            if queue:
                self._queues[key] = queue  # at the end of the line
            self._running, self._busy = key, True
            return job
