"""GGUF files of llama models hold the rows of q and k in another order; left so, the model still talks plausibly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from miniinfer.models.build import undo_gguf_order
from miniinfer.models.gguf import read_header
from miniinfer.models.gguf_source import GGUFSource
from miniinfer.models.loader import LoadedModel, load_model
from miniinfer.models.report import PhaseClock
from tests.models.tiny_files import (
    CONFIG,
    HEAD_DIM,
    HEADS,
    METADATA,
    TOKENIZER_JSON,
    gguf_tensors,
    hf_tensors,
    to_gguf_order,
    write_folder,
    write_gguf,
)


@pytest.mark.parametrize(("head_dim", "first"), [(4, [0, 2, 1, 3]), (64, [0, 32, 1, 33, 2, 34])])
def test_order_within_a_head(head_dim: int, first: list[int]) -> None:
    rows = torch.arange(head_dim, dtype=torch.float32)[:, None]
    stored = to_gguf_order(rows.numpy(), heads=1)
    assert stored[: len(first), 0].tolist() == first
    assert torch.equal(undo_gguf_order(torch.from_numpy(stored), 1), rows)


@pytest.mark.parametrize("heads", [9, 3])
def test_round_trip(heads: int) -> None:
    weight = torch.randn(heads * 64, 32, generator=torch.Generator().manual_seed(heads))
    stored = torch.from_numpy(to_gguf_order(weight.numpy(), heads))
    assert torch.equal(undo_gguf_order(stored, heads), weight)
    assert not torch.equal(undo_gguf_order(stored, 12 // heads), weight)  # the other head count is wrong


def test_real_rows_of_layer_0(model: LoadedModel, model_path: Path) -> None:
    config, qkv = model.config, model.weights.layers[0].qkv.to_dense()
    q_rows, kv_rows = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    q, k, v = qkv.split((q_rows, kv_rows, kv_rows))
    with open(model_path, "rb") as file:
        source = GGUFSource(read_header(model_path), file, PhaseClock())
        assert np.array_equal(to_gguf_order(q.numpy(), 9), source.read("blk.0.attn_q.weight").numpy())
        assert np.array_equal(to_gguf_order(k.numpy(), 3), source.read("blk.0.attn_k.weight").numpy())
        assert torch.equal(v, source.read("blk.0.attn_v.weight"))
        assert torch.equal(model.weights.layers[0].attn_out.to_dense(), source.read("blk.0.attn_output.weight"))


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("tied", [True, False])
def test_both_formats_of_one_model_are_equal(tmp_path: Path, shards: int, tied: bool) -> None:
    tensors = hf_tensors(tied=tied)
    config = CONFIG | {"tie_word_embeddings": tied}
    gguf = load_model(write_gguf(tmp_path / "tiny.gguf", METADATA, gguf_tensors(tensors)), device="cpu")
    folder = load_model(write_folder(tmp_path / "tiny", config, TOKENIZER_JSON, tensors, shards), device="cpu")
    assert gguf.config == folder.config
    assert gguf.config.tied is tied
    for ours, theirs in zip(gguf.weights.layers, folder.weights.layers, strict=True):
        for part in ("qkv", "attn_out", "gate_up", "down"):
            assert torch.equal(getattr(ours, part).to_dense(), getattr(theirs, part).to_dense()), part
        assert torch.equal(ours.attn_norm, theirs.attn_norm)
        assert torch.equal(ours.mlp_norm, theirs.mlp_norm)
    assert torch.equal(gguf.weights.final_norm, folder.weights.final_norm)
    assert torch.equal(gguf.weights.unembed.to_dense(), folder.weights.unembed.to_dense())
    ids = torch.arange(gguf.config.vocab_size)
    assert torch.equal(gguf.weights.embedding(ids), folder.weights.embedding(ids))
    assert gguf.token_bytes == folder.token_bytes
    assert gguf.stop_ids == folder.stop_ids
    text = "hello the 12\n\n<|im_end|>"
    assert gguf.tokenizer.encode(text, parse_special=True) == folder.tokenizer.encode(text, parse_special=True)


def test_fused_rows_stand_in_the_order_q_k_v_and_gate_up(tmp_path: Path) -> None:
    tensors = hf_tensors()
    layer = load_model(write_folder(tmp_path / "tiny"), device="cpu").weights.layers[0]
    attention = "model.layers.0.self_attn."
    fused = torch.cat([tensors[f"{attention}{part}_proj.weight"] for part in "qkv"])
    assert torch.equal(layer.qkv.to_dense(), fused)
    assert layer.qkv.out_features == (HEADS + 2 * 2) * HEAD_DIM
    mlp = torch.cat([tensors[f"model.layers.0.mlp.{part}_proj.weight"] for part in ("gate", "up")])
    assert torch.equal(layer.gate_up.to_dense(), mlp)
