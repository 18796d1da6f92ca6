"""Where the core's helpers run."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress

import pytest
import torch

from miniinfer.engine.linear import Linear
from miniinfer.native.library import Library
from miniinfer.native.products import native_linear


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a thread be kept off a core")
def test_a_helper_that_is_woken_does_not_begin_on_the_callers_core(library: Library) -> None:
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        pytest.skip("one core: there is no other one")
    linear = native_linear(Linear(torch.ones(4096, 576)), library)
    time.sleep(0.02)  # helpers sleep by now
    linear(torch.ones(1, 576))
    found = []
    for task in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # a thread may end meanwhile
            found.append(os.sched_getaffinity(int(task)))
    assert any(cores < allowed and len(cores) == len(allowed) - 1 for cores in found)
    assert allowed in found, "the caller may run anywhere"
