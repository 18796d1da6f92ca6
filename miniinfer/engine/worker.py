"""The one long-lived thread in which all model work of a process runs.

A thread keeps its own team of OpenMP helpers, so a new thread for each step would pay for a new team each time (the
same products took 15.1 ms in place of 11.3 ms). One thread also means that no two steps ever compete for the cores.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Hashable
from concurrent.futures import Future, wait
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from miniinfer.engine.machine_faults import machine_fault
from miniinfer.engine.torch_threads import one_thread
from miniinfer.errors import MiniInferError

T = TypeVar("T")

SHUT_DOWN = "The engine has been shut down: start the app again."
SLOW_SECONDS = 0.5  # whoever waits longer is told how many come first
MOST_BEFORE_A_PART = 4  # jobs that may come before the next part of a long one, while they wait


@dataclass
class _Job:
    """key: whose it is. quick: see `EngineWorker`. parts: what fn(*args) gave, if it is a generator that has not
    ended."""

    key: Hashable
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    quick: bool = False
    future: Future[Any] = field(default_factory=Future)
    parts: Generator[Any, None, Any] | None = None

    def run(self) -> None:
        """All of it, or its next part."""
        if self.parts is None and not self.future.set_running_or_notify_cancel():
            return
        try:
            with one_thread() if self.quick else nullcontext():
                result = self.fn(*self.args) if self.parts is None else self.parts
                if isinstance(result, Generator):
                    self.parts = result
                    next(result)
                    return
        except StopIteration as end:
            self.parts = None
            self.future.set_result(end.value)
        except BaseException as error:
            self.parts = None
            fault = machine_fault(error)  # also of what looks back at a step, and is no step
            if fault is not None:
                fault.__cause__ = error
            self.future.set_exception(fault or error)
        else:
            self.future.set_result(result)

    def give_up(self) -> None:
        """It is not run any more; what it had begun is undone."""
        if self.parts is None:
            self.future.cancel()
            return
        self.parts.close()
        self.future.set_exception(MiniInferError(SHUT_DOWN))


class EngineWorker:
    """Runs functions one after another, under torch.inference_mode.

    Every key (a user, say) has a queue of its own, and the keys take turns: whoever queues a hundred steps keeps the
    others waiting for one of them at most. A quick job (what is shown of a step, after the step) goes first, but never
    two of a key in a row, and torch has one thread in it.

    A function that returns a generator is a long job, and what the generator returns is its result. All other jobs come
    in between its parts, MOST_BEFORE_A_PART at a time, so that it goes on too; long ones are done one after another.
    """

    def __init__(self, name: str = "engine") -> None:
        self._queues: OrderedDict[Hashable, deque[_Job]] = OrderedDict()
        self._long: deque[_Job] = deque()  # those that have begun; the first one goes on
        self._passed = 0  # jobs that came first since its last part
        self._running: Hashable = None  # whose job it is that runs
        self._busy = False
        self._went_first: set[Hashable] = set()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, fn: Callable[..., T], *args: Any, key: Hashable = None, quick: bool = False) -> Future[T]:
        """Queue fn(*args) behind what this key has queued already. Raises MiniInferError if the worker is closed."""
        job = _Job(key, fn, args, quick)
        with self._changed:
            if self._closed:
                raise MiniInferError(SHUT_DOWN)
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
        if threading.current_thread() is self._thread:  # already there: waiting for oneself would never end
            return _all_of(fn(*args))
        future = self.submit(fn, *args, key=key, quick=quick)
        if slow is not None and not wait([future], SLOW_SECONDS).done:
            slow(future)
        return future.result()

    def call_in_parts(
        self, work: Callable[[], Generator[Any, None, T]], key: Hashable = None,
        slow: Callable[[Future[Any]], object] | None = None,
    ) -> T:
        """What a long job returns. The same as `call`, for the eyes of a type checker."""
        found: T = self.call(work, key=key, slow=slow)
        return found

    @property
    def num_waiting(self) -> int:
        """Jobs that have not begun, or not ended."""
        with self._changed:
            return sum(map(len, self._queues.values())) + len(self._long)

    def place_of(self, key: Hashable) -> int:
        """How many other keys come before the next job of this one, the one that runs included; 0 if it has none."""
        with self._changed:
            if key not in self._queues:
                return next((place for place, job in enumerate(self._long) if job.key == key), 0)
            before = next(place for place, other in enumerate(self._queues) if other == key)
            return before + (self._busy and self._running != key)

    def close(self) -> None:
        """Let the running function end, cancel the queued ones, and stop the thread."""
        with self._changed:
            self._closed = True
            for queue in self._queues.values():
                for job in queue:
                    job.give_up()
            self._queues.clear()
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _work(self) -> None:
        with torch.inference_mode():
            while (job := self._next_job()) is not None:
                job.run()
                self._put_away(job)
                del job  # while the thread waits it holds nothing of it: a model, say, or a user's whole engine
            while self._long:
                self._long.popleft().give_up()

    def _put_away(self, job: _Job) -> None:
        """What it has left to do waits; a long job that was the first of them stays it until it ends."""
        with self._changed:
            self._busy = False
            first = bool(self._long) and self._long[0] is job
            if job.parts is not None:
                self._passed = 0
                if not first:
                    self._long.append(job)
            elif first:
                self._long.popleft()

    def _next_job(self) -> _Job | None:
        """Wait for work and take one job from the key whose turn it is, or go on with a long one. None once the worker
        is closed."""
        with self._changed:
            while not self._closed and not self._queues and not self._long:
                self._changed.wait()
            if self._closed:
                return None
            if self._long and (not self._queues or self._passed >= MOST_BEFORE_A_PART):
                job = self._long[0]
            else:
                self._passed += 1
                key, queue = self._queues.popitem(last=False)
                job = queue.popleft()
                if queue:
                    self._queues[key] = queue  # at the end of the line
            self._running, self._busy = job.key, True
            return job


def _all_of(result: Any) -> Any:
    """What a generator returns; anything else is the result itself."""
    while isinstance(result, Generator):
        try:
            next(result)
        except StopIteration as end:
            return end.value
    return result
