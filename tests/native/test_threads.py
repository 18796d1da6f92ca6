"""Where the core's helpers run, and when nobody wakes them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from miniinfer.engine.linear import Linear
from miniinfer.native.library import Library
from miniinfer.native.products import native_linear
from tests.ui.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a thread be kept off a core")


@pytest.fixture
def allowed() -> Iterator[set[int]]:
    """The cores that this thread may use; there are at least two."""
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        pytest.skip("one core: there is no other one")
    yield cores
    os.sched_setaffinity(0, cores)


@pytest.fixture
def call(library: Library) -> Callable[[], None]:
    """A product that is large enough to be shared."""
    linear, x = native_linear(Linear(torch.ones(4096, 576)), library), torch.ones(1, 576)

    def product() -> None:
        assert torch.equal(linear(x), torch.full((1, 4096), 576.0))

    return product


def helpers(allowed: set[int]) -> dict[int, set[int]]:
    """The threads that may use all cores but one, and which these are."""
    found = {}
    for task in map(int, os.listdir("/proc/self/task")):
        with suppress(ProcessLookupError):  # a thread may end meanwhile
            found[task] = os.sched_getaffinity(task)
    return {task: cores for task, cores in found.items() if cores < allowed and len(cores) == len(allowed) - 1}


def state_of(task: int) -> tuple[str, str]:
    """R or S (it sleeps), and how often it has gone to sleep."""
    lines = dict(line.split(":\t", 1) for line in Path(f"/proc/self/task/{task}/status").read_text().splitlines())
    return lines["State"][0], lines["voluntary_ctxt_switches"]


def asleep(tasks: dict[int, set[int]]) -> bool:
    return all(state_of(task)[0] == "S" for task in tasks)


def helpers_after(call: Callable[[], None], allowed: set[int]) -> dict[int, set[int]]:
    """Call until a helper has been woken, and wait until all sleep again: one that is awake is told nothing."""

    def told() -> bool:
        call()
        return bool(helpers(allowed))

    wait_until(told)
    found = helpers(allowed)
    wait_until(lambda: asleep(found))
    return found


def test_a_helper_that_is_woken_does_not_begin_on_the_callers_core(call: Callable[[], None], allowed: set[int]) -> None:
    assert helpers_after(call, allowed)
    assert os.sched_getaffinity(0) == allowed, "the caller may run anywhere"


def test_nobody_is_woken_for_a_caller_that_has_one_core(call: Callable[[], None], allowed: set[int]) -> None:
    """They could only run where it does, or where they may not."""
    found = helpers_after(call, allowed)
    before = [state_of(task) for task in found]
    os.sched_setaffinity(0, {min(allowed)})
    call()
    wait_until(lambda: asleep(found))
    assert [state_of(task) for task in found] == before


def test_cores_that_are_taken_away_and_given_back(call: Callable[[], None], allowed: set[int]) -> None:
    """As taskset does it with all threads of a process: the caller stays where it was, and must tell them again."""
    found = helpers_after(call, allowed)

    def told_again() -> bool:
        for cores in ({min(allowed)}, allowed):
            for task in (0, *found):
                os.sched_setaffinity(task, cores)
            call()
            wait_until(lambda: asleep(found))
        return helpers(allowed).keys() == found.keys()

    for _ in range(5):  # helpers that have lost their core are left out for 2 s at most
        if told_again():
            return
        time.sleep(0.5)
    assert told_again()


FORKS = """
import ctypes, os, sys, time
from pathlib import Path
from miniinfer.native.library import Library

library = Library(Path(sys.argv[1]))
library.set_threads(2)
rows, size = 64, 576
x, weight, y = ((ctypes.c_float * (rows * size))(*[1.0] * (rows * size)) for _ in range(3))

def job():
    y[0] = y[rows * size - 1] = 0.0
    library.rms_norm(*map(ctypes.addressof, (x, weight)), 0.0, rows, size, ctypes.addressof(y))
    return y[0] == y[rows * size - 1] == 1.0

allowed = os.sched_getaffinity(0)
[helper] = (task for task in map(int, os.listdir("/proc/self/task")) if task != os.getpid())
until = time.monotonic() + 30
while os.sched_getaffinity(helper) == allowed and time.monotonic() < until:
    time.sleep(0.005)
    job()
told = os.sched_getaffinity(helper)
for _ in range(10):
    child = os.fork()
    if child == 0:  # where the helper of its parent is
        os.sched_setaffinity(0, told)
        os.sched_setaffinity(0, allowed)
        right = job()
        library.set_threads(2)
        os._exit(not (right and job()))
    assert os.waitpid(child, 0)[1] == 0, "the child computes something else"
    assert told < allowed and os.sched_getaffinity(helper) == told, "the child has moved its parent's helper"
assert job()
"""


def test_a_process_that_forks_keeps_its_helpers_and_the_child_computes(library: Library, allowed: set[int]) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS, str(library.path)], capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
