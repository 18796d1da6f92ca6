"""Facts come from the file: what is missing is an error or stands in the report as derived, never a silent default."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miniinfer.errors import BadInputError, ModelFileError
from miniinfer.models.loader import LoadedModel, load_model
from tests.models.tiny_files import CONTROL, METADATA, VOCAB, gguf_tensors, hf_tensors, write_gguf

REQUIRED = [
    "general.architecture", "llama.block_count", "llama.context_length", "llama.embedding_length",
    "llama.feed_forward_length", "llama.attention.head_count", "llama.rope.freq_base",
    "llama.attention.layer_norm_rms_epsilon", "tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.tokens",
    "tokenizer.ggml.merges",
]  # fmt: skip


def without(*keys: str) -> dict[str, Any]:
    return {key: value for key, value in METADATA.items() if key not in keys}


def test_facts_of_the_default_model(model: LoadedModel) -> None:
    config = model.config
    assert (config.num_layers, config.num_heads, config.num_kv_heads, config.head_dim) == (30, 9, 3, 64)
    assert (config.hidden_size, config.intermediate_size, config.vocab_size) == (576, 1536, 49152)
    assert (config.context_length, config.rope_base, config.tied) == (8192, 100000.0, True)
    assert config.norm_eps == float(np.float32(1e-5))
    assert config.kv_bytes_per_token(4) == 46_080
    # what these two facts make of numbers, where another family's defaults would give .74989 and 707.1
    assert config.rope_base ** (-2 / config.head_dim) == pytest.approx(0.69783, abs=1e-5)
    assert (1e-6 + config.norm_eps) ** -0.5 == pytest.approx(301.5, abs=0.05)


def test_the_report_says_what_was_read_and_what_derived(model: LoadedModel) -> None:
    facts = {fact.key: fact for fact in model.report.facts}
    assert facts["rope_base"].how == "read"
    assert facts["rope_base"].why == "llama.rope.freq_base"
    assert facts["norm_eps"].how == "read"
    assert {key for key, fact in facts.items() if fact.how == "derived"} == {
        "rope_scaling", "head_dim", "tied", "stop_ids",
    }  # fmt: skip
    assert "no tensor output.weight" in facts["tied"].why
    assert model.report.notes == ()
    assert model.name == "SmolLM2-135M-Instruct"
    assert (model.device, model.dtype) == ("cpu", "float32")


def test_memory_in_the_report_is_the_memory_of_the_tensors(model: LoadedModel) -> None:
    matrices = 30 * (960 * 576 + 576 * 576 + 3072 * 576 + 576 * 1536) + 49152 * 576
    norms = 61 * 576
    assert model.report.memory_bytes == {"weights": 4 * (matrices + norms), "embedding rows": 49152 * 18 * 34}
    assert model.weight_bytes == sum(model.report.memory_bytes.values())
    assert set(model.report.seconds) == {
        "find and check the file",
        "header",
        "tokenizer",
        "read",
        "dequantise",
        "take the converted copy",
        "prepack and place",
    }
    assert all(seconds > 0 for seconds in model.report.seconds.values())


@pytest.mark.parametrize("key", REQUIRED)
def test_required_keys(tmp_path: Path, key: str) -> None:
    with pytest.raises(ModelFileError, match=key):
        load_model(write_gguf(tmp_path / "a.gguf", without(key)))


@pytest.mark.parametrize(
    ("key", "fact", "value"),
    [
        ("tokenizer.ggml.bos_token_id", "add_bos", "False"),
        ("llama.rope.dimension_count", "rope_scaling", "none"),
        ("llama.attention.value_length", "vocab_size", str(VOCAB)),
        ("tokenizer.ggml.token_type", "control tokens", "none"),
    ],
)
def test_keys_whose_absence_means_something(tmp_path: Path, key: str, fact: str, value: str) -> None:
    report = load_model(write_gguf(tmp_path / "a.gguf", without(key))).report
    assert [(one.value, one.how) for one in report.facts if one.key == fact] == [(value, "derived")]


def test_head_counts_are_derived_when_absent(tmp_path: Path) -> None:
    lengths = ("llama.attention.key_length", "llama.attention.value_length", "llama.rope.dimension_count")
    keys = without(*lengths, "llama.attention.head_count_kv") | {"llama.attention.head_count": 4}
    tensors = {name: one for name, one in gguf_tensors(hf_tensors()).items() if "attn_" not in name}
    for layer in range(2):
        tensors[f"blk.{layer}.attn_norm.weight"] = (0, (64,), b"\0" * 256)
        for part in ("q", "k", "v", "output"):
            tensors[f"blk.{layer}.attn_{part}.weight"] = (0, (64, 64), b"\0" * 16384)
    config = load_model(write_gguf(tmp_path / "a.gguf", keys, tensors)).config
    assert (config.num_kv_heads, config.head_dim) == (4, 16)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"general.architecture": "qwen2"}, "'qwen2', but only 'llama'"),
        ({"tokenizer.ggml.model": "llama"}, "'llama', but only 'gpt2'"),
        ({"tokenizer.ggml.pre": "deepseek-llm"}, "'deepseek-llm', but only gpt-2 and smollm are known"),
        ({"llama.rope.scaling.type": "yarn"}, "'yarn', which MiniInfer does not know"),
        ({"llama.rope.scaling.factor": 4.0}, "llama.rope.scaling.factor to 4.0"),
        ({"llama.expert_count": 8}, "llama.expert_count to 8"),
        ({"llama.attention.sliding_window": 64}, "llama.attention.sliding_window to 64"),
        ({"llama.tensor_data_layout": "Meta AI original pth"}, "llama.tensor_data_layout to 'Meta AI original pth'"),
        ({"llama.rope.dimension_count": 8}, "rotates 8 of 16 dimensions"),
        ({"llama.attention.value_length": 8}, "values of another length"),
        ({"llama.attention.head_count_kv": 4}, "6 query heads for 4 key/value heads"),
        ({"llama.block_count": 3}, "missing tensor blk.2.attn_norm.weight"),
        ({"llama.block_count": 1 << 31}, "missing tensor blk.2.attn_norm.weight"),
        ({"llama.block_count": 1}, "no use for the tensor blk.1.attn_norm.weight"),
        ({"llama.feed_forward_length": 96}, "blk.0.ffn_gate.weight has the shape [160, 64]"),
        ({"llama.vocab_size": 300}, "says 300 tokens"),
        ({"llama.context_length": 1 << 30}, "context length of 1073741824"),
        ({"llama.rope.freq_base": float("nan")}, "rope_base must be a finite number"),
        ({"llama.block_count": "two"}, "llama.block_count must be a whole number, not 'two'"),
        ({"split.count": 3}, "split into several files"),
        ({"tokenizer.ggml.merges": []}, "no BPE merges"),
        ({"tokenizer.ggml.merges": ["h e", "x"]}, "merge 'x' is not a pair"),
        ({"tokenizer.ggml.merges": ["h nowhere"]}, "the tokenizer cannot be built"),
        ({"tokenizer.ggml.eos_token_id": 5000}, "token id 5000 is declared"),
    ],
)
def test_what_we_cannot_follow_is_refused_by_name(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ModelFileError) as caught:
        load_model(write_gguf(tmp_path / "a.gguf", METADATA | changes))
    assert reason in str(caught.value)
    assert str(caught.value).startswith("a.gguf")


def test_a_tensor_that_the_architecture_does_not_use(tmp_path: Path) -> None:
    tensors = gguf_tensors(hf_tensors()) | {"rope_freqs.weight": (0, (8,), b"\0" * 32)}
    with pytest.raises(ModelFileError, match=r"no use for the tensor rope_freqs\.weight"):
        load_model(write_gguf(tmp_path / "a.gguf", METADATA, tensors))


def test_a_key_that_is_switched_off_is_a_note(tmp_path: Path) -> None:
    loaded = load_model(write_gguf(tmp_path / "a.gguf", METADATA | {"llama.expert_count": 0}))
    assert loaded.report.notes == ("llama.expert_count is 0: switched off, so it is not used.",)


def test_a_model_without_a_readable_template_takes_raw_prompts(tmp_path: Path) -> None:
    loaded = load_model(write_gguf(tmp_path / "a.gguf", METADATA | {"tokenizer.chat_template": "{% for %}"}))
    assert loaded.chat_template is None
    assert "chat template cannot be read" in loaded.report.notes[0]
    assert load_model(write_gguf(tmp_path / "a.gguf", without("tokenizer.chat_template"))).chat_template is None


def test_stop_ids_are_all_declared_ones_and_end_of_text(tmp_path: Path) -> None:
    keys = METADATA | {"tokenizer.ggml.eos_token_id": 1, "tokenizer.ggml.eot_token_id": 7}
    assert load_model(write_gguf(tmp_path / "a.gguf", keys)).stop_ids == {0, 1, 2, 7}
    plain = without("tokenizer.ggml.eos_token_id") | {
        "tokenizer.ggml.token_type": np.array([3, 3] + [1] * (VOCAB - 2), np.int32)
    }
    assert load_model(write_gguf(tmp_path / "a.gguf", plain)).stop_ids == {CONTROL.index("<|endoftext|>")}


def test_settings_of_the_call(model_path: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="dtype must be one of float32, bfloat16, packed, not 'float16'"):
        load_model(model_path, dtype="float16")
    with pytest.raises(BadInputError, match="device must be auto, cuda, mps, cpu, not 'tpu'"):
        load_model(model_path, device="tpu")
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(BadInputError, match="give the folder"):
        load_model(tmp_path / "model.safetensors")
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(ModelFileError, match="is a pickle"):
        load_model(tmp_path / "pytorch_model.bin")
