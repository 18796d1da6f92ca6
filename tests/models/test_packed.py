"""From the bytes of a file to packed products: every 4-bit type exactly, the others by name, devices and folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from gguf.constants import GGMLQuantizationType
from gguf.quants import quantize

from miniinfer.errors import BadInputError
from miniinfer.models.blocks import READERS, read_blocks
from miniinfer.models.loader import LoadedModel, load_model
from miniinfer.models.tensor_types import SUPPORTED, dequantise
from tests.engine.test_packed import numbers
from tests.models.tiny_files import HIDDEN, LAYERS, METADATA, gguf_tensors, hf_tensors, write_folder, write_gguf

KINDS = {kind.name: kind for kind in SUPPORTED.values()}


@pytest.mark.parametrize("name", sorted(READERS))
def test_blocks_are_the_numbers_of_the_file(name: str) -> None:
    kind, generator = KINDS[name], np.random.default_rng(0)
    rows = generator.integers(0, 256, (5, 2 * kind.block_bytes), dtype=np.uint8)
    halves = 1 if name == "Q4_0" else 2
    scales = generator.normal(size=(10, halves)).astype(np.float16)
    rows.reshape(10, -1)[:, : 2 * halves] = scales.view(np.uint8)
    blocks = read_blocks(rows, kind)
    assert blocks.q.max() == 15
    assert torch.equal(numbers(blocks), torch.from_numpy(dequantise(rows, kind)))


def stored(name: str, tensors: dict, only: str = "") -> dict:  # type: ignore[type-arg]
    """The float32 matrices whose name contains `only`, put into that storage type."""
    kind = GGMLQuantizationType[name]
    for key, (now, shape, raw) in tensors.items():
        if now == KINDS["F32"].type_id and len(shape) == 2 and only in key:
            rows = np.frombuffer(raw, np.float32).reshape(shape)
            tensors[key] = (kind.value, shape, quantize(rows, kind).tobytes())
    return tensors


def load(path: Path, tensors: dict, dtype: str = "packed") -> LoadedModel:  # type: ignore[type-arg]
    return load_model(write_gguf(path / "a.gguf", METADATA, tensors), device="cpu", dtype=dtype)


def matrices(model: LoadedModel) -> list[torch.Tensor]:
    weights = model.weights
    layers = [m.to_dense() for la in weights.layers for m in (la.qkv, la.attn_out, la.gate_up, la.down)]
    return [*layers, weights.unembed.to_dense()]


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1"])
def test_a_file_of_blocks_keeps_them_in_the_right_row_order(tmp_path: Path, name: str) -> None:
    tensors = stored(name, gguf_tensors(hf_tensors()), "blk")
    packed, dense = load(tmp_path, tensors), load(tmp_path, tensors, "float32")
    for ours, theirs in zip(matrices(packed), matrices(dense), strict=True):
        torch.testing.assert_close(ours, theirs, atol=2**-8 * float(theirs.abs().max()) * 2, rtol=0)
    assert [m.kept for m in packed.report.kept] == ["4-bit blocks"] * 4 * LAYERS + ["float16"]
    ids = torch.tensor([0, 7, 30])
    assert torch.equal(packed.weights.embedding(ids), dense.weights.embedding(ids))
    for ours, theirs in zip(packed.report.kept, matrices(packed), strict=True):
        file = dict(zip((m.names for m in packed.report.kept), matrices(dense), strict=True))[ours.names]
        assert ours.difference == pytest.approx(float((theirs - file).norm() / file.norm()), rel=0.02)


def test_a_product_with_one_part_of_another_type_falls_back_by_name(tmp_path: Path) -> None:
    tensors = stored("Q4_1", stored("Q8_0", gguf_tensors(hf_tensors()), "blk.1.attn_v"), "blk")
    report = load(tmp_path, tensors).report
    fallen = {matrix.names: matrix for matrix in report.kept if matrix.why}
    names = ("blk.1.attn_q.weight", "blk.1.attn_k.weight", "blk.1.attn_v.weight")
    assert set(fallen) == {names, ("token_embd.weight",)}
    assert fallen[names].stored == ("Q4_1", "Q8_0")
    assert fallen[names].kept == "float16"
    assert "blk.1.attn_v.weight" in fallen[names].why
    assert fallen[("token_embd.weight",)].why == "F32 has no 4-bit blocks of 32 numbers"


def test_rows_that_do_not_come_by_sixteen_fall_back(tmp_path: Path) -> None:
    """The tiny vocabulary is such a number of rows."""
    tensors = stored("Q4_1", gguf_tensors(hf_tensors()))
    model = load(tmp_path, tensors)
    unembed = model.report.kept[-1]
    assert model.config.vocab_size % 16 != 0
    assert "takes rows by 16" in unembed.why
    assert model.weights.unembed.storage == "float16"
    assert model.weights.embedding.nbytes == model.config.vocab_size * HIDDEN * 20 // 32


def test_what_float16_cannot_hold_stays_float32(tmp_path: Path) -> None:
    weights = hf_tensors()
    weights["model.embed_tokens.weight"][0, 0] = 1e6
    model = load(tmp_path, stored("Q4_1", gguf_tensors(weights), "blk"))
    assert model.report.kept[-1].kept == model.weights.unembed.storage == "float32"
    assert model.report.kept[-1].difference == 0


def test_only_packed_reports_what_was_kept(tmp_path: Path) -> None:
    model = load_model(write_gguf(tmp_path / "a.gguf"), device="cpu", dtype="bfloat16")
    assert model.report.kept == ()
    assert model.dtype == "bfloat16"


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_other_devices_are_refused(tmp_path: Path, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: True)
    path = write_gguf(tmp_path / "a.gguf")
    with pytest.raises(BadInputError, match=f"run on the CPU only, not on {device}: choose cpu"):
        load_model(path, device=device, dtype="packed")
    assert load_model(path, device="auto", dtype="packed").device == "cpu"


def test_a_folder_has_no_blocks(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="the folder model has none"):
        load_model(write_folder(tmp_path / "model"), device="cpu", dtype="packed")


def test_an_unknown_dtype_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="one of float32, bfloat16, packed"):
        load_model(write_gguf(tmp_path / "a.gguf"), dtype="int4")
