"""Every tensor of a step stands on the device of the weights, and only what has been copied to the CPU becomes numpy.

The device is torch's own fake one: its tensors have a place, a shape and a type, and no numbers. An operation on
tensors of two places is an error there, as it is on the real one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.backend import TORCH, Backend
from miniinfer.engine.embedding import Embedding
from miniinfer.engine.engine import Engine
from miniinfer.engine.graph.backend import GraphBackend
from miniinfer.engine.graph.capture import keep_plain
from miniinfer.engine.linear import Linear
from miniinfer.engine.lookup import attention_rows, kv_at, logits_of
from miniinfer.engine.lookup_attention import attention_parts, head_outputs, unrotate
from miniinfer.engine.padding import padded_program
from miniinfer.engine.program import build_program
from miniinfer.engine.stage import Stage
from miniinfer.engine.state import StepState
from miniinfer.engine.weights import LayerWeights, Weights
from miniinfer.trace.recorder import Recorder
from tests.engine.tiny import TINY, TinyModel, tiny_token_bytes

CUDA = torch.device("cuda", 0)
SMALLEST = dataclasses.replace(TINY, num_layers=2)


def to_meta(value: object) -> object:
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta") if isinstance(
        value, Tensor) else value  # fmt: skip


def getitem(self: FakeTensor, index: object) -> Tensor:
    """Square brackets are C++ that wants the real device: the shape is found on a tensor of no device."""
    if self.device.type != "cuda":
        return Tensor.__getitem__(self, index)
    parts = index if isinstance(index, tuple) else (index,)
    assert all(part.device == self.device for part in parts if isinstance(part, Tensor)), "an index elsewhere"
    found = Tensor.__getitem__(to_meta(self), tuple(map(to_meta, parts)))
    return torch.empty_strided(found.shape, found.stride(), dtype=found.dtype, device=self.device)


def setitem(self: FakeTensor, index: object, value: object) -> None:
    part = self[index]
    copy_(part, value) if isinstance(value, Tensor) else part.fill_(value)


def copy_(self: FakeTensor, other: Tensor) -> Tensor:
    """A copy may cross devices; what it must fit is the shape."""
    assert torch.broadcast_shapes(self.shape, other.shape) == self.shape
    return self


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def numpy(self: FakeTensor, *, force: bool = False) -> np.ndarray:
        assert self.device.type == "cpu", "numpy has no numbers of another device"
        assert self.dtype != torch.bfloat16, "numpy has no bfloat16"
        return np.zeros(tuple(self.shape), str(self.dtype).removeprefix("torch."))

    host_tensor = torch.tensor

    def tensor(data: object, *, dtype: torch.dtype | None = None, device: torch.device | None = None) -> Tensor:
        host = host_tensor(data, dtype=dtype)
        return host if device is None else torch.empty(host.shape, dtype=host.dtype, device=device)

    monkeypatch.setattr(torch, "tensor", tensor)
    for name, stand_in in {"numpy": numpy, "__getitem__": getitem, "__setitem__": setitem, "copy_": copy_}.items():
        monkeypatch.setattr(FakeTensor, name, stand_in, raising=False)
    # Events are of a real device; what is held here is where tensors are.
    monkeypatch.setattr("miniinfer.engine.clock.DeviceClock._event", lambda self: 0.0)
    monkeypatch.setattr("miniinfer.engine.clock.DeviceClock.ms", lambda self, start, end: 0.0)
    with FakeTensorMode():
        yield


def model_there() -> TinyModel:
    def there(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.bfloat16, device=CUDA)

    c = SMALLEST
    e, f, qkv = c.hidden_size, c.intermediate_size, (c.num_heads + 2 * c.num_kv_heads) * c.head_dim
    layers = tuple(
        LayerWeights(
            there(e), Linear(there(qkv, e)), Linear(there(e, c.num_heads * c.head_dim)), there(e),
            Linear(there(2 * f, e)), Linear(there(e, f)),
        )
        for _ in range(c.num_layers)
    )  # fmt: skip
    matrix = there(c.vocab_size, e)
    weights = Weights(Embedding.dense(matrix), layers, there(e), Linear(matrix), CUDA, torch.bfloat16, tied=True)
    return TinyModel(c, weights, frozenset(), tiny_token_bytes(c.vocab_size))


def without_sampling(program: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Drawing needs numbers, which there are none of: token 1 is what every sequence goes on with."""

    def unembed(engine: Engine, state: StepState) -> None:
        assert logits_of(engine, state.final_norm_out).device.type == "cpu"
        state.raw_logits = torch.zeros(0, 1)
        state.sample_rows, state.token_ids = (), (1,) * len(state.sample_seqs)

    kept = [s for s in program if s.processor is None and s.name not in ("softmax", "sample")]
    return tuple(dataclasses.replace(s, fn=unembed) if s.name == "unembed" else s for s in kept)


def tensors(state: StepState) -> Iterator[tuple[str, Tensor]]:
    for name, value in vars(state).items():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, FakeTensor):
                yield name, part


@pytest.mark.parametrize("backend", [TORCH, GraphBackend(lambda device: keep_plain)], ids=["torch", "graph"])
@pytest.mark.usefixtures("fake")
def test_a_recorded_run_with_a_branch(backend: Backend) -> None:
    model = model_there()
    config = EngineConfig(block_size=4, pool_chunk_blocks=20)
    engine = Engine(model, config, program=backend.program(without_sampling(build_program(SMALLEST))), backend=backend)
    seq = engine.add_request(range(1, 8), SamplingParams(max_new_tokens=9))
    recorder = Recorder(engine)

    def look(stage: Stage, state: StepState) -> None:
        if stage.name == "sample":
            recorder._copies = recorder._copy(state)
        recorder(stage, state)
        for name, tensor in tensors(state):
            if name not in ("raw_logits", "logits", "probs"):
                assert tensor.device == CUDA, (stage.name, name)
            if tensor.is_floating_point() and tensor.device == CUDA:
                assert tensor.dtype == torch.bfloat16, (stage.name, name)

    for number in range(1, 4):
        recorder.start()
        state = engine.step(look, only=seq)
        record = recorder.record(number, state)
        assert record.sequences[0].context_len == 6 + number
    branch = engine.fork(seq, 8)
    engine.step(look, only=branch)
    assert engine.block_copies
    for each in (seq, branch):
        engine.step(look)
        assert not each.finished
    if isinstance(backend, GraphBackend):
        assert backend.steps[""] == 5, backend.sentence
    queries = torch.zeros(3, TINY.num_heads, TINY.head_dim)
    assert attention_rows(engine, seq, 1, queries, 2).device == CUDA
    assert attention_parts(engine, seq, 1, queries, 2).z.device == CUDA
    assert head_outputs(engine, 1, queries[0]).device == CUDA
    assert unrotate(engine, queries, torch.arange(3)).device == CUDA
    assert kv_at(engine, seq, 1, 0, 5)[0].device == CUDA


@pytest.mark.usefixtures("fake")
def test_a_static_batch_and_sequences_of_unlike_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("miniinfer.engine.groups.GROUP_COST", 1)
    for batching, program in (("continuous", build_program(SMALLEST)), ("static", padded_program(SMALLEST))):
        engine = Engine(model_there(), EngineConfig(block_size=4, batching=batching), program=without_sampling(program))
        seqs = [engine.add_request([1] * n, SamplingParams(max_new_tokens=2)) for n in (2, 5, 12)]
        while engine.step():
            engine.check()
        assert all(seq.finished for seq in seqs)
