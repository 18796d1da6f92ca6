"""Rows of a Q8_0 embedding in the core."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor

from miniinfer.config import EngineConfig
from miniinfer.engine.embedding import Embedding
from miniinfer.engine.engine import Engine
from miniinfer.models.tensor_types import SUPPORTED, dequantise
from miniinfer.native.backend import NativeBackend
from miniinfer.native.library import Library
from tests.engine.tiny import TINY, tiny_model

[Q8_0] = (kind for kind in SUPPORTED.values() if kind.name == "Q8_0")
VOCAB, SIZE = 67, 96
DTYPES = [torch.float32, torch.bfloat16]


@pytest.fixture
def stored() -> Tensor:
    """uint8 [V, bytes of a row]: any bytes as numbers, scales of every size, 0 and the smallest among them."""
    random = np.random.default_rng(0)
    blocks = random.integers(0, 256, (VOCAB, SIZE // 32, 34), dtype=np.uint8)
    scales = (random.standard_normal((VOCAB, SIZE // 32)) * 10.0 ** random.integers(-6, 4, (VOCAB, 1))).astype("<f2")
    scales[0, :2] = 0, 6e-8
    blocks[:, :, :2] = scales[:, :, None].view(np.uint8)
    return torch.from_numpy(blocks.reshape(VOCAB, -1))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_are_those_of_the_file_to_the_bit(dtype: torch.dtype, stored: Tensor, library: Library) -> None:
    ids = torch.cat([torch.arange(VOCAB), torch.tensor([3, 3, VOCAB - 1])]).repeat(9)  # enough to be shared
    found = torch.empty(len(ids), SIZE, dtype=dtype)
    library.of(bfloat16=dtype == torch.bfloat16).embed(
        stored.data_ptr(), VOCAB, ids.data_ptr(), len(ids), SIZE, found.data_ptr()
    )
    wanted = torch.from_numpy(dequantise(stored.numpy()[ids], Q8_0)).to(dtype)
    as_bits = torch.int16 if dtype == torch.bfloat16 else torch.int32
    assert torch.equal(found.view(as_bits), wanted.view(as_bits))


@pytest.mark.parametrize("wrong", [-1, VOCAB, 2**62, -(2**63)])
def test_an_id_that_is_not_in_it_is_nan_and_nothing_else_is(wrong: int, stored: Tensor, library: Library) -> None:
    ids, found = torch.tensor([1, wrong, 2]), torch.empty(3, SIZE)
    library.embed(stored.data_ptr(), VOCAB, ids.data_ptr(), 3, SIZE, found.data_ptr())
    assert found.isnan().all(dim=1).tolist() == [False, True, False]
    assert found[[0, 2]].isfinite().all()


@pytest.mark.parametrize("ids_dtype", [torch.int64, torch.int32], ids=str)
def test_the_stage_reads_the_ids_as_they_are(ids_dtype: torch.dtype, stored: Tensor, backend: NativeBackend) -> None:
    """Another stage may have put others in their place: of another type, or with something between them."""
    model = tiny_model(config=dataclasses.replace(TINY, hidden_size=SIZE, vocab_size=VOCAB))
    asked = []

    def lookup(ids: Tensor) -> Tensor:
        asked.append(ids)
        return torch.from_numpy(dequantise(stored.numpy()[ids.numpy()], Q8_0))

    embedding = Embedding(lookup, stored.nbytes, "Q8_0", stored)
    weights = dataclasses.replace(model.weights, embedding=embedding, tied=False)
    engine = Engine(dataclasses.replace(model, weights=weights), EngineConfig(), backend=backend)
    engine.add_request([5, 66, 0])
    state = engine.begin_step()
    assert state is not None
    engine.advance(state, until=2)
    state.input_ids = torch.tensor([5, 1, 66, 1, 0, 1], dtype=ids_dtype)[::2]
    engine.advance(state, until=3)
    assert torch.equal(state.resid_pre, torch.from_numpy(dequantise(stored.numpy()[[5, 66, 0]], Q8_0)))
    assert len(asked) == (0 if ids_dtype == torch.int64 else 1), "the core's own, where it can"
