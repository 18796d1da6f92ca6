"""Each weight is in memory once, on every device."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import torch

from miniinfer.engine.weights import Weights
from miniinfer.models import gguf_facts
from miniinfer.models.build import Builder
from miniinfer.models.converted.conversion import Conversion
from miniinfer.models.gguf import read_header
from miniinfer.models.gguf_source import GGUFSource
from miniinfer.models.report import FactReader, PhaseClock
from tests.models.tiny_files import HIDDEN, METADATA, VOCAB, gguf_tensors, hf_tensors, write_gguf


def build(path: Path, device: str) -> Weights:
    header = read_header(path)
    config = gguf_facts.read_config(header, FactReader(path, header.metadata))
    clock = PhaseClock()
    with open(path, "rb") as file:
        source = GGUFSource(header, file, clock)
        conversion = Conversion(path, "float32", device)
        builder = Builder(source, torch.device(device), torch.float32, clock, conversion)
        return builder.build(config, lambda text, share: None)


@pytest.mark.parametrize("tied", [True, False])
def test_off_the_cpu_one_dense_tensor_serves_both_ends_of_a_tied_model(tmp_path: Path, tied: bool) -> None:
    """The meta device stands for any that is not the CPU: it has places and shapes, but no numbers."""
    path = write_gguf(tmp_path / "a.gguf", METADATA, gguf_tensors(hf_tensors(tied=tied)))
    weights = build(path, "meta")
    matrix = weights.unembed.to_dense()
    assert matrix.device.type == weights.layers[0].qkv.to_dense().device.type == "meta"
    assert not weights.unembed.prepacked
    assert weights.embedding.storage == "float32"
    assert weights.embedding.nbytes == VOCAB * HIDDEN * 4
    held = inspect.getclosurevars(weights.embedding.lookup).nonlocals["matrix"]
    assert (held is matrix) is tied


def test_on_the_cpu_the_plain_copy_is_dropped(tmp_path: Path) -> None:
    weights = build(write_gguf(tmp_path / "a.gguf"), "cpu")
    for layer in weights.layers:
        assert layer.qkv.prepacked
        assert layer.attn_out.prepacked
        assert layer.gate_up.prepacked
        assert layer.down.prepacked
    assert weights.unembed.prepacked
