"""Every storage type we read, on blocks worked out by hand; and the embedding rows that stay stored."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from miniinfer.models.gguf import read_header
from miniinfer.models.loader import LoadedModel, load_model
from miniinfer.models.tensor_types import SUPPORTED, dequantise
from tests.models.tiny_files import METADATA, gguf_tensors, hf_tensors, write_gguf

BY_NAME = {kind.name: kind for kind in SUPPORTED.values()}


def half(value: float) -> bytes:
    return np.float16(value).tobytes()


def numbers(name: str, block: bytes) -> list[float]:
    kind = BY_NAME[name]
    assert len(block) == kind.block_bytes
    return dequantise(np.frombuffer(block, np.uint8).reshape(1, -1), kind)[0].tolist()


def test_plain_types() -> None:
    assert numbers("F32", np.float32(-1.5).tobytes()) == [-1.5]
    assert numbers("F16", half(-1.5)) == [-1.5]
    assert numbers("BF16", b"\xc0\xbf") == [-1.5]  # the upper half of float32's 0xBFC00000


def test_q4_0() -> None:  # d * (q - 8), low nibbles are the first half of the block
    assert numbers("Q4_0", half(0.5) + b"\x21" + b"\xf0" * 15) == [-3.5] + [-4.0] * 15 + [-3.0] + [3.5] * 15


def test_q4_1() -> None:  # d * q + m
    assert numbers("Q4_1", half(0.5) + half(-4) + b"\x21" + b"\xf0" * 15) == [-3.5] + [-4.0] * 15 + [-3.0] + [3.5] * 15


def test_q5_0() -> None:  # d * (q + 16 h - 16): bit i of h belongs to element i
    bits = (1 | 1 << 16).to_bytes(4, "little")
    assert numbers("Q5_0", half(0.5) + bits + b"\x21" + b"\0" * 15) == [0.5] + [-8.0] * 15 + [1.0] + [-8.0] * 15


def test_q5_1() -> None:  # d * (q + 16 h) + m
    bits = (1 | 1 << 16).to_bytes(4, "little")
    assert (
        numbers("Q5_1", half(0.5) + half(-4) + bits + b"\x21" + b"\0" * 15) == [4.5] + [-4.0] * 15 + [5.0] + [-4.0] * 15
    )


def test_q8_0() -> None:
    assert numbers("Q8_0", half(0.5) + bytes([0x80, 127, 1]) + b"\0" * 29) == [-64.0, 63.5, 0.5] + [0.0] * 29


SCALES = bytes([3] * 4 + [1] * 4 + [0x13] * 4)  # eight 6-bit scales of 3 and eight 6-bit minima of 1


def test_q4_k() -> None:  # d * scale * q - dmin * minimum, 32 low nibbles and then 32 high ones
    assert numbers("Q4_K", half(0.5) + half(0.25) + SCALES + b"\x21" * 128) == ([1.25] * 32 + [2.75] * 32) * 4


def test_q5_k() -> None:  # the same with a fifth bit: bit j of byte i belongs to element 32 j + i
    block = half(0.5) + half(0.25) + SCALES + b"\x02" * 32 + b"\x21" * 128
    assert numbers("Q5_K", block) == [1.25] * 32 + [26.75] * 32 + ([1.25] * 32 + [2.75] * 32) * 3


def test_q6_k() -> None:  # d * scale * (q - 32): four low bits, then two high ones
    block = b"\x21" * 128 + b"\xe4" * 64 + bytes([2] * 16) + half(0.5)
    assert numbers("Q6_K", block) == ([-31.0] * 32 + [-15.0] * 32 + [2.0] * 32 + [18.0] * 32) * 2


def test_a_file_called_q4_1_holds_three_types(model_path: Path, model: LoadedModel) -> None:
    types = Counter(info.kind.name for info in read_header(model_path).tensors.values())
    assert types == {"Q4_1": 210, "F32": 61, "Q8_0": 1} == model.report.tensor_types


def test_stored_embedding_rows_equal_the_dense_matrix(model: LoadedModel) -> None:
    ids = torch.tensor([0, 2, 7042, 7042, 49151])
    dense = model.weights.unembed.to_dense()  # the same tied matrix, dequantised as a whole
    assert torch.equal(model.weights.embedding(ids), dense[ids])
    assert model.weights.embedding.storage == "Q8_0"
    assert model.weights.embedding.nbytes == 49152 * 576 // 32 * 34


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_model_stored_in_each_type(tmp_path: Path, kind: str, dtype: str) -> None:
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize, quantize

    stored, expected = {}, {}
    for name, (_, shape, raw) in gguf_tensors(hf_tensors()).items():
        rows = np.frombuffer(raw, np.float32).reshape(shape)
        number = GGMLQuantizationType[kind] if len(shape) == 2 else GGMLQuantizationType.F32
        packed = quantize(rows, number)
        stored[name] = (int(number), shape, packed.tobytes())
        expected[name] = torch.from_numpy(dequantize(packed.reshape(shape[0], -1), number).reshape(shape).copy())
    loaded = load_model(write_gguf(tmp_path / "a.gguf", METADATA, stored), device="cpu", dtype=dtype)
    down = expected["blk.1.ffn_down.weight"].to(loaded.weights.dtype)
    embedding = expected["token_embd.weight"].to(loaded.weights.dtype)
    ids = torch.tensor([5, 0, 265])
    assert loaded.dtype == dtype
    assert torch.equal(loaded.weights.layers[1].down.to_dense(), down)
    assert torch.equal(loaded.weights.unembed.to_dense(), embedding)
    assert torch.equal(loaded.weights.embedding(ids), embedding[ids])
    assert loaded.weights.embedding(torch.tensor([], dtype=torch.int64)).shape == (0, 64)
    assert loaded.report.tensor_types[kind] == (20 if kind == "F32" else 15)
