"""What is captured when, what happens if it cannot be, and that the stand-in for CUDA's graphs behaves like them."""

from __future__ import annotations

import logging

import pytest
import torch

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.graph.backend import MOST_SHAPES, GraphBackend
from miniinfer.engine.graph.capture import CaptureError, CudaCapture, agree, keep_on, keep_plain
from miniinfer.engine.graph.stages import KEPT_STAGES
from miniinfer.engine.linear import Linear
from miniinfer.engine.program import build_program
from miniinfer.engine.stages import attention, mlp
from tests.engine.graph.fake_cuda import FakeCuda, FakeGraph, FakeStream
from tests.engine.helpers import solo
from tests.engine.tiny import TINY, tiny_model

PARAMS = SamplingParams(temperature=0, max_new_tokens=20)
PROMPT = [5, 17, 42, 3, 66, 8, 21]
ROOMY = EngineConfig(block_size=4, pool_chunk_blocks=40)
KEPT = sum(stage.fn in KEPT_STAGES for stage in build_program(TINY))
CPU = torch.device("cpu")


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with every product with weights that Python asks for."""
    calls: list[str] = []
    original = Linear.__call__

    def call(self: Linear, x: torch.Tensor) -> torch.Tensor:
        calls.append("product")
        return original(self, x)

    monkeypatch.setattr(Linear, "__call__", call)
    return calls


def test_a_stage_is_captured_once_and_replayed_ever_after(
    cuda: FakeCuda, captured: GraphBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(tiny_model(), ROOMY, backend=captured)
    seq = engine.add_request(PROMPT, PARAMS)
    engine.step()
    assert cuda.graphs == [], "a prompt captures nothing"
    engine.step()
    assert len(cuda.graphs) == KEPT == 3 * 11 + 1
    assert {graph.replays for graph in cuda.graphs} == {1}
    products = counted(monkeypatch)
    for _ in range(5):
        engine.step()
    assert products == ["product"] * 5, "the unembed product of each step; all others are in the graphs"
    assert len(cuda.graphs) == KEPT
    assert {graph.replays for graph in cuda.graphs} == {6}
    while engine.step():
        pass
    assert seq.output_ids == solo(PROMPT, PARAMS)[0]
    assert captured.steps == {"": 19}
    assert captured.sentence == "Decode steps in reused memory: 19."


def test_another_shape_is_captured_anew_and_the_old_one_is_kept(cuda: FakeCuda, captured: GraphBackend) -> None:
    engine = Engine(tiny_model(), EngineConfig(block_size=16, pool_chunk_blocks=40), backend=captured)
    short = engine.add_request(PROMPT, PARAMS)
    long = engine.add_request(range(62), PARAMS)
    for _ in range(6):  # the long one passes 64 positions
        engine.step(only=short)
        engine.step(only=long)
    assert len(cuda.graphs) == 2 * KEPT
    engine.step(only=short)
    assert len(cuda.graphs) == 2 * KEPT
    together = Engine(tiny_model(), ROOMY, backend=captured)
    for _ in range(MOST_SHAPES + 1):
        together.add_request(PROMPT, PARAMS)
        together.step()
    for rows in range(MOST_SHAPES + 1, 1, -1):  # 5 rows, 4, 3, ...: each a shape; then 5 again
        assert len(together.scheduler.running) == rows
        together.step()
        together.abort(together.scheduler.running[-1])
    assert len(captured.memories(together)) == MOST_SHAPES


def test_a_pool_that_moves_is_captured_anew(cuda: FakeCuda, captured: GraphBackend) -> None:
    """The graphs of the old one read and write where nothing of the sequence lies any more."""
    engine = Engine(tiny_model(), EngineConfig(block_size=4, pool_chunk_blocks=3), backend=captured)
    seq = engine.add_request(PROMPT, PARAMS)
    while engine.step():
        pass
    assert seq.output_ids == solo(PROMPT, PARAMS)[0]
    assert captured.steps["the KV cache moved in the middle of it"] == 2
    assert len(cuda.graphs) == 3 * KEPT
    assert len(captured.memories(engine)) == 1, "what no longer fits is dropped"


def test_memory_goes_with_its_engine(captured: GraphBackend) -> None:
    engine = Engine(tiny_model(), ROOMY, backend=captured)
    engine.add_request(PROMPT, PARAMS)
    engine.step()
    engine.step()
    assert len(captured._memories) == 1
    del engine
    assert len(captured._memories) == 0


@pytest.mark.parametrize("fails_at", ["capture_begin", "capture_end", "replay"])
def test_a_capture_that_fails_is_said_once_and_torch_goes_on(
    fails_at: str, cuda: FakeCuda, captured: GraphBackend, monkeypatch: pytest.MonkeyPatch, caplog
) -> None:
    """In the middle of the first step, so that its second half is the readable program's."""
    original = getattr(FakeGraph, fails_at)

    def fail(self: FakeGraph, *args: object, **kwargs: object) -> None:
        if len(cuda.graphs) == 17:
            if fails_at == "capture_end":
                original(self, *args, **kwargs)
            raise RuntimeError("CUDA error: out of resources.\nCUDA kernel errors might be asynchronously reported")
        original(self, *args, **kwargs)

    monkeypatch.setattr(FakeGraph, fails_at, fail)
    engine = Engine(tiny_model(), ROOMY, backend=captured)
    seq = engine.add_request(PROMPT, PARAMS)
    with caplog.at_level(logging.WARNING):
        while engine.step():
            engine.check()
    assert seq.output_ids == solo(PROMPT, PARAMS)[0]
    said = (
        "A decode step could not be captured as a graph (CUDA error: out of resources), so torch computes stage by "
        "stage."
    )
    assert [record.message for record in caplog.records] == [said]
    assert captured.failure == captured.sentence == said
    assert len(cuda.graphs) == 17, "and nobody tries again"


def test_a_stage_that_needs_the_host_cannot_be_captured(cuda: FakeCuda) -> None:
    """Each of these would stop a real capture; here they show that the stand-in sees them."""
    capture = CudaCapture(CPU)
    x = torch.arange(3.0)
    for job in (
        lambda: {"x": x + float(x.sum())}, lambda: {"x": x + torch.tensor([1.0, 2.0, 3.0])},
        lambda: {"x": x.nonzero()},
    ):  # fmt: skip
        with torch.inference_mode(), pytest.raises(CaptureError, match=r"\(CUDA error: operation"):
            capture(job)


def test_a_capture_that_gives_other_numbers_is_refused(cuda: FakeCuda) -> None:
    runs: list[int] = []

    def job() -> dict[str, torch.Tensor]:
        runs.append(1)
        return {"x": torch.full((3,), float(len(runs)))}

    with torch.inference_mode(), pytest.raises(CaptureError, match="x came out differently"):
        CudaCapture(CPU)(job)


def test_what_is_not_a_fault_of_the_device_is_passed_on(cuda: FakeCuda) -> None:
    def job() -> dict[str, torch.Tensor]:
        raise KeyError("a mistake of ours")

    with pytest.raises(KeyError, match="a mistake of ours"):
        CudaCapture(CPU)(job)


def test_a_capture_runs_in_its_own_stream_between_what_came_and_what_comes(cuda: FakeCuda) -> None:
    capture = CudaCapture(CPU)
    x, seen = torch.ones(2), []

    def job() -> dict[str, torch.Tensor]:
        seen.append(cuda.current)
        return {"x": x * 2}

    with torch.inference_mode():
        kept = capture(job)
    assert set(seen) == {capture._stream} != {cuda.default}
    assert len(seen) == 3, "twice to warm up, once for the capture"
    assert capture._stream.waited_for == [cuda.default] * 2
    assert cuda.default.waited_for == [capture._stream] * 2
    assert kept.fields["x"].tolist() == [2, 2]
    with torch.inference_mode():
        x.fill_(5)
        assert kept.fields["x"].tolist() == [2, 2], "before the replay"
        kept.run()
    assert kept.fields["x"].tolist() == [10, 10]
    with pytest.raises(RuntimeError, match="non-default stream"):
        FakeGraph(cuda).capture_begin(pool=None, capture_error_mode="thread_local")


def test_what_keeps_stages_depends_on_the_device(cuda: FakeCuda) -> None:
    assert keep_on(CPU) is keep_plain
    assert keep_on(torch.device("mps")) is keep_plain
    kept = keep_on(torch.device("cuda"))
    assert isinstance(kept, CudaCapture)
    assert isinstance(kept._stream, FakeStream)


def test_agreement_is_relative_to_the_largest_number_and_sees_what_is_hidden() -> None:
    minus = -torch.inf
    a = torch.tensor([1000.0, 1.0, minus])
    assert agree(a, torch.tensor([1001.0, 9.0, minus]))
    assert not agree(a, torch.tensor([1050.0, 1.0, minus]))
    assert not agree(a, torch.tensor([1000.0, 1.0, 0.0]))
    assert not agree((a, a), (a, torch.tensor([1000.0, torch.nan, minus])))


def test_a_twin_says_what_its_torch_stage_says() -> None:
    engine = Engine(tiny_model(), backend=GraphBackend())
    for stage, torch_stage in zip(engine.program, build_program(TINY), strict=True):
        assert (stage.sentence, stage.name) == (torch_stage.sentence, torch_stage.name)
        assert (stage.fn is torch_stage.fn) is (torch_stage.fn not in KEPT_STAGES)
    assert {attention.write_kv, mlp.mlp_out} < set(KEPT_STAGES)
