"""No memory and a lost device, in the middle of a step and beside it: a sentence, nothing half done, and the next step
works."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import torch

from miniinfer.engine import machine_faults
from miniinfer.engine.machine_faults import machine_fault
from miniinfer.engine.worker import EngineWorker
from miniinfer.errors import DeviceLostError, MiniInferError, NoMemoryError, OutOfBlocksError
from miniinfer.trace.batch.run import BatchRun
from miniinfer.trace.batch.settings import BatchRequest
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.recorder import Recorder
from miniinfer.trace.run import ForceToken
from tests.engine.tiny import tiny_model
from tests.trace.live import live_run, token

TOO_MUCH = 1 << 60  # bytes: no machine has them, and each allocator says so in its own way


def no_memory_in_torch() -> None:
    torch.empty(TOO_MUCH, dtype=torch.uint8)


def no_memory_in_numpy() -> None:
    np.ones(TOO_MUCH, np.uint8)


def device_lost() -> None:
    raise torch.AcceleratorError("CUDA error: unspecified launch failure\nCUDA kernel errors might be reported later")


def device_asserts() -> None:
    raise RuntimeError("CUDA error: device-side assert triggered\nCompile with TORCH_USE_CUDA_DSA")


FAULTS = [
    (no_memory_in_torch, NoMemoryError, "not enough free memory"),
    (no_memory_in_numpy, NoMemoryError, "not enough free memory"),
    (device_lost, DeviceLostError, "(CUDA error: unspecified launch failure)"),
    (device_asserts, DeviceLostError, "(CUDA error: device-side assert triggered)"),
]


@contextmanager
def failing(run: LiveRun, stage_name: str, fault: Callable[[], None]) -> Iterator[None]:
    """The run's engine as long as its stages of this name fail, in the last layer if they have one."""
    program = run.engine.program
    last = run.engine.model_config.num_layers - 1
    run.engine.program = tuple(
        replace(stage, fn=lambda engine, state: fault())
        if stage.name == stage_name and stage.layer in (None, last)
        else stage
        for stage in program
    )
    yield
    run.engine.program = program


def outcome(run: LiveRun) -> list[object]:
    return [[(m.step, m.context_len, m.token_id, m.coin) for m in run.steps], [t.token_id for t in run.tokens]]


def stepped(run: LiveRun, steps: int) -> LiveRun:
    while len(run.steps) < steps and run.step():
        pass
    return run


@pytest.mark.parametrize("stage", ["schedule", "write_kv", "attn_scores", "sample", "commit"])
@pytest.mark.parametrize(("fault", "kind", "sentence"), FAULTS)
def test_in_the_middle_of_a_step(
    stage: str, fault: Callable[[], None], kind: type[MiniInferError], sentence: str
) -> None:
    run = stepped(live_run(), 2)
    before, blocks = outcome(run), run.engine.pool.num_used
    with failing(run, stage, fault), pytest.raises(kind) as caught:
        run.step()
    said = str(caught.value)
    assert sentence in said
    assert said.endswith(".")
    assert "\n" not in said
    assert (outcome(run), run.engine.pool.num_used) == (before, blocks)
    run.engine.check()
    assert outcome(stepped(run, 12)) == outcome(stepped(live_run(), 12)), "as if nothing had happened"


def test_no_memory_for_what_is_kept_of_a_step_and_there_is_no_step() -> None:
    run = stepped(live_run(), 2)
    with patch.object(Recorder, "_copy", lambda *_: no_memory_in_numpy()), pytest.raises(NoMemoryError):
        run.step()
    assert run.seq.num_tokens == run.info.num_prompt_tokens + 2, "its token is not committed without a record"
    assert outcome(stepped(run, 12)) == outcome(stepped(live_run(), 12))


def test_a_part_of_a_prefill_that_is_tried_twice_counts_once_in_its_picture() -> None:
    runs = []
    for fails in (False, True):
        run = stepped(live_run(chunk=2), 2)
        if fails:
            with failing(run, "sample", no_memory_in_torch), pytest.raises(NoMemoryError):
                run.step()
        runs.append(stepped(run, 4))
    maps = [run.pooled_maps(4) for run in runs]
    assert maps[0] is not None
    assert maps[1] is not None
    assert maps[0].maps.tobytes() == maps[1].maps.tobytes()


def test_a_branch_without_memory_leaves_its_trunk_alone() -> None:
    run = stepped(live_run(), 3)
    before = outcome(run)
    worker = EngineWorker()
    branch = "miniinfer.engine.sampler.sampler_trace"
    with patch(branch, lambda *_: no_memory_in_torch()), pytest.raises(NoMemoryError):
        worker.call(lambda: run.fork(ForceToken(2, 11), "r2", "branch"))
    with patch("miniinfer.engine.lookup.attention_rows", lambda *_: device_lost()), pytest.raises(DeviceLostError):
        worker.call(lambda: run.exact_row(1, 1, 4))
    assert outcome(run) == before
    run.engine.check()
    assert worker.call(lambda: run.fork(ForceToken(2, 11), "r2", "branch")).tokens[-1].token_id == 11
    assert len(worker.call(lambda: run.exact_row(1, 1, 4))) == 5
    worker.close()


def test_a_cache_that_cannot_grow_and_a_device_that_is_lost_meanwhile() -> None:
    for fault, kind in ((no_memory_in_torch, OutOfBlocksError), (device_lost, DeviceLostError)):
        run = live_run(prompt=list(range(1, 60)))
        with patch("torch.zeros", lambda *_, fault=fault, **__: fault()), pytest.raises(kind):
            run.step()
        run.engine.check()
        assert run.step()


def test_a_step_of_a_batch_that_fails_loses_nobody_who_has_just_arrived() -> None:
    requests = [BatchRequest(name, "", arrival=at) for at, name in enumerate(("a", "b"))]
    batches = [BatchRun(tiny_model(), requests, encode=lambda r: [1, 2, 3, 4], describe=token) for _ in range(2)]
    batch = batches[1]
    assert batch.step()
    with patch.object(batch.engine, "begin_step", lambda **_: no_memory_in_torch()), pytest.raises(RuntimeError):
        batch.step()
    for one in batches:
        while one.step():
            pass
    whole, failed = [[(s.arrived, [(r.request_id, r.context_len) for r in s.rows]) for s in b.steps] for b in batches]
    assert whole == failed


def test_a_mistake_of_ours_keeps_its_name() -> None:
    assert machine_fault(RuntimeError("mat1 and mat2 shapes cannot be multiplied")) is None
    assert machine_fault(KeyError("CUDA error")) is None
    assert machine_fault(OutOfBlocksError("out of memory")) is None, "it is a sentence already"
    assert "(RuntimeError)" not in str(machine_fault(RuntimeError("CUDA error: x")))
    assert "(AcceleratorError)" in str(machine_fault(torch.AcceleratorError()))


LONG_PROMPT = """
import json, resource
from dataclasses import replace
from pathlib import Path
import torch
torch.set_num_threads(1)
from miniinfer.errors import MiniInferError
from tests.engine.tiny import TINY, tiny_model
from tests.trace.live import live_run

def limit(more):
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + more, resource.RLIM_INFINITY))

model = tiny_model(config=replace(TINY, context_length=4096))
run = live_run(model=model, prompt=[1 + i % 60 for i in range(2000)])
run.step()
limit(16 << 20)
try:
    while run.step():
        pass
except MiniInferError as error:
    said = str(error)
stuck = len(run.steps), run.seq.num_computed_tokens
run.engine.check()
limit(1 << 40)
while run.step() and len(run.steps) < 5:
    pass
print(json.dumps([said, stuck, [meta.context_len for meta in run.steps]]))
"""


def test_a_long_prompt_and_an_allocator_that_has_no_more() -> None:
    """The limit is the system's own, so every allocation of the process meets it."""
    if sys.platform != "linux":
        return  # elsewhere address space cannot be limited
    found = subprocess.run([sys.executable, "-c", LONG_PROMPT], capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
    said, (steps, computed), lengths = json.loads(found.stdout)
    assert "not enough free memory" in said or "no memory for a KV cache" in said
    assert 0 < computed == 512 * steps < 2000
    assert lengths == [512, 1024, 1536, 2000, 2001], "it goes on where it stopped, step by step"


def test_what_cannot_fit_is_refused_before_the_system_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_faults, "free_bytes", lambda: 1000)
    run = live_run()
    with pytest.raises(OutOfBlocksError, match="There is no memory for a KV cache of 4 blocks"):
        run.step()
    assert run.steps == []
    run.engine.check()
    monkeypatch.setattr(machine_faults, "WORTH_ASKING", 100)
    with pytest.raises(NoMemoryError, match="not enough free memory"):
        run.step()
    run.engine.check()
    monkeypatch.setattr(machine_faults, "free_bytes", lambda: None)
    assert outcome(stepped(run, 12)) == outcome(stepped(live_run(), 12)), "a system that does not say is tried"
