"""Hugging Face folders: both layouts of config.json, tokenizer.json in either form, one file or shards, no pickles."""

from __future__ import annotations

import copy
import json
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from miniinfer.errors import MiniInferError, ModelFileError
from miniinfer.models.chat import encode_chat
from miniinfer.models.loader import LoadedModel, load_model
from miniinfer.models.vocabulary import parse_merges
from tests.models.tiny_files import CONFIG, TOKENIZER_JSON, VOCAB, hf_tensors, write_folder
from tests.test_strangers import NO_FILES, place

NEWER = {key: value for key, value in CONFIG.items() if key not in ("rope_theta", "rope_scaling")} | {
    "rope_parameters": {"rope_theta": 5000.0, "rope_type": "default"}
}


def refusal(folder: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        load_model(folder, device="cpu")
    assert folder.name in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        NEWER,
        CONFIG | {"rope_scaling": {"type": "default"}},
        CONFIG | {"rope_parameters": {"rope_type": "default"}},
        CONFIG | {"rope_theta": 5000, "rope_parameters": {"rope_theta": 5000.0, "rope_type": "default"}},
    ],
)
def test_both_layouts_say_the_same(tmp_path: Path, config: dict[str, Any]) -> None:
    loaded = load_model(write_folder(tmp_path / "tiny", config), device="cpu")
    assert loaded.config.rope_base == 5000.0
    assert (loaded.name, loaded.source) == ("tiny", tmp_path / "tiny")
    assert {fact.key: fact.how for fact in loaded.report.facts}["rope_base"] == "read"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model_type": "qwen2"}, "tiny has the model type 'qwen2', but only 'llama'"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "'linear' (rope_scaling)"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "'llama3' (rope_scaling)"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 5000.0}}, "'yarn' (rope_parameters)"),
        ({"rope_parameters": {"full_attention": {"rope_theta": 5000.0}}}, "full_attention in rope_parameters"),
        ({"rope_parameters": {"rope_theta": 1.0e4}}, "two different RoPE bases"),
        ({"rope_parameters": [1]}, "rope_parameters must be an object"),
        ({"rope_theta": None}, "rope_theta is missing"),
        ({"rms_norm_eps": None}, "rms_norm_eps is missing"),
        ({"partial_rotary_factor": 0.5}, "rotates a part (0.5)"),
        ({"hidden_act": "gelu"}, "hidden_act to 'gelu'"),
        ({"attention_bias": True}, "attention_bias to True"),
        ({"quantization_config": {"quant_method": "gptq"}}, "is quantised"),
        ({"num_hidden_layers": 1 << 40}, "missing tensor model.layers.2.input_layernorm.weight"),
        ({"num_hidden_layers": 1}, "no use for the tensor model.layers.1."),
        ({"vocab_size": VOCAB + 1}, "model.embed_tokens.weight has the shape"),
        ({"tie_word_embeddings": False}, "missing tensor lm_head.weight"),
        ({"head_dim": None}, "do not divide among 6 heads"),
        ({"eos_token_id": [2, "x"]}, "'x' where a token id is expected"),
    ],
)
def test_settings_we_cannot_follow(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    assert reason in refusal(write_folder(tmp_path / "tiny", CONFIG | changes))


@pytest.mark.parametrize("key", sorted({*CONFIG, "rope_parameters", "generation"}))
def test_any_value_under_any_key(tmp_path: Path, key: str) -> None:
    values: list[Any] = [None, -1, 0, 1.5, 1e308, "x", True, [], [3], {}, {"rope_theta": []}, 1 << 80, 10**400]
    folder = write_folder(tmp_path / "tiny")
    for value in values:
        (folder / "config.json").write_text(json.dumps(CONFIG | {key: value}))
        with suppress(MiniInferError):
            load_model(folder, device="cpu")


def test_tied_is_derived_when_the_key_is_absent(tmp_path: Path) -> None:
    config = {key: value for key, value in CONFIG.items() if key != "tie_word_embeddings"}
    assert load_model(write_folder(tmp_path / "a", config), device="cpu").config.tied is True
    untied = write_folder(tmp_path / "b", config, tensors=hf_tensors(tied=False))
    assert load_model(untied, device="cpu").config.tied is False


def test_what_says_nothing_new_is_noted(tmp_path: Path) -> None:
    tensors = hf_tensors(tied=False) | {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8)}
    loaded = load_model(write_folder(tmp_path / "tiny", tensors=tensors), device="cpu")
    assert loaded.report.notes == (
        "The tensor lm_head.weight is in the folder and not used.",
        "The tensor model.layers.0.self_attn.rotary_emb.inv_freq is in the folder and not used.",
    )


@pytest.mark.parametrize("stored", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_stored_types(tmp_path: Path, stored: torch.dtype, dtype: torch.dtype) -> None:
    tensors = {name: tensor.to(stored) for name, tensor in hf_tensors().items()}
    folder = write_folder(tmp_path / "tiny", tensors=tensors)
    loaded = load_model(folder, device="cpu", dtype=str(dtype).removeprefix("torch."))
    embedding = tensors["model.embed_tokens.weight"].float().to(dtype)
    ids = torch.tensor([0, 265, 3])
    assert torch.equal(loaded.weights.embedding(ids), embedding[ids])
    assert torch.equal(loaded.weights.unembed.to_dense(), embedding)
    assert loaded.weights.embedding.nbytes == VOCAB * 64 * stored.itemsize


def test_other_stored_types_are_listed(tmp_path: Path) -> None:
    tensors = hf_tensors() | {"model.norm.weight": torch.ones(64, dtype=torch.float64)}
    message = refusal(write_folder(tmp_path / "tiny", tensors=tensors))
    assert "model.norm.weight (F64); it reads F32, F16, BF16" in message


def with_tokenizer(folder: Path, change: Any) -> Path:
    tokenizer = copy.deepcopy(TOKENIZER_JSON)
    change(tokenizer)
    return write_folder(folder, tokenizer=tokenizer)


def test_merges_in_either_form(tmp_path: Path, model: LoadedModel) -> None:
    strings = with_tokenizer(
        tmp_path / "strings", lambda t: t["model"].update(merges=[" ".join(m) for m in t["model"]["merges"]])
    )
    first = load_model(strings, device="cpu").tokenizer
    second = load_model(write_folder(tmp_path / "lists"), device="cpu").tokenizer
    for text in ("hello the 12", "x\n\n", " thethe lo", "東京 ½"):
        assert first.encode(text, parse_special=False) == second.encode(text, parse_special=False)
    assert first.encode("hello the", parse_special=False) == [262, 264]
    assert len(model.tokenizer.vocabulary.merges) == 48_900


def test_merges_are_split_at_the_first_space() -> None:
    assert parse_merges(["a b c", ["a b", "c"]], "t") == (("a", "b c"), ("a b", "c"))


@pytest.mark.parametrize("merges", [["ab"], [["a"]], [["a", "b", "c"]], [["a", 1]], [None], [" b"], ["a "]])
def test_merges_that_are_no_pairs(merges: list[Any]) -> None:
    with pytest.raises(ModelFileError, match="is not a pair of tokens"):
        parse_merges(merges, "t")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda t: t["model"].update(merges=[]), "no BPE merges"),
        (lambda t: t["model"].pop("merges"), "no list of merges"),
        (lambda t: t["model"].update(type="Unigram"), "'Unigram' tokenizer"),
        (lambda t: t["model"].update(byte_fallback=True), "byte_fallback to True"),
        (lambda t: t.update(normalizer={"type": "NFC"}), "normalizer {'type': 'NFC'}"),
        (lambda t: t.update(post_processor={"type": "TemplateProcessing"}), "post-processor 'TemplateProcessing'"),
        (lambda t: t.update(pre_tokenizer={"type": "Metaspace"}), "'Metaspace'"),
        (lambda t: t["pre_tokenizer"]["pretokenizers"][0].update(individual_digits=False), "'Digits + ByteLevel'"),
        (lambda t: t["pre_tokenizer"]["pretokenizers"][1].update(add_prefix_space=True), "'Digits + ByteLevel'"),
        (lambda t: t["added_tokens"][2].update(rstrip=True), "swallows its surroundings (rstrip)"),
        (lambda t: t["added_tokens"][2].update(id=1), "two tokens with the id 1"),
        (lambda t: t["added_tokens"].append({"id": 1 << 40, "content": "x", "special": True}), "has 266 rows"),
        (lambda t: t["model"]["vocab"].update(x=-1), "-1 where a token id is expected"),
        (lambda t: t["model"].update(vocab={}), "no vocabulary"),
        (lambda t: t["model"]["vocab"].update({"東": 4}), "two tokens the id 4"),
    ],
)
def test_tokenizers_we_cannot_follow(tmp_path: Path, change: Any, reason: str) -> None:
    assert reason in refusal(with_tokenizer(tmp_path / "tiny", change))


def test_gpt2_split_and_user_defined_tokens(tmp_path: Path) -> None:
    def change(tokenizer: dict[str, Any]) -> None:
        tokenizer["pre_tokenizer"] = tokenizer["pre_tokenizer"]["pretokenizers"][1]
        tokenizer["added_tokens"][1]["special"] = False

    tokenizer = load_model(with_tokenizer(tmp_path / "tiny", change), device="cpu").tokenizer
    assert tokenizer.vocabulary.pre == "gpt-2"
    assert tokenizer.encode("<|im_start|>", parse_special=False) == [1]
    assert len(tokenizer.encode("<|im_end|>", parse_special=False)) == 10
    assert [tokenizer.is_special(token_id) for token_id in (0, 1, 2)] == [True, False, True]


def test_ids_without_a_token(tmp_path: Path) -> None:
    config = CONFIG | {"vocab_size": VOCAB + 6}
    tensors = hf_tensors()
    tensors["model.embed_tokens.weight"] = torch.ones(VOCAB + 6, 64)
    loaded = load_model(write_folder(tmp_path / "tiny", config, tensors=tensors), device="cpu")
    assert len(loaded.token_bytes) == VOCAB + 6
    assert loaded.token_bytes[-1] == b""
    assert loaded.tokenizer.display(VOCAB + 5) == f"<no token {VOCAB + 5}>"


def test_stop_ids_of_all_files(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tiny", CONFIG | {"eos_token_id": 2})
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 9]}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": {"content": "<|im_start|>"}}))
    assert load_model(folder, device="cpu").stop_ids == {0, 1, 2, 7, 9}


def test_chat_template_of_older_folders(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tiny")
    (folder / "chat_template.jinja").unlink()
    assert load_model(folder, device="cpu").chat_template is None
    for stored in ("{{ messages[0].content }}", [{"name": "default", "template": "{{ messages[0].content }}"}]):
        (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": stored}))
        loaded = load_model(folder, device="cpu")
        assert loaded.chat_template is not None
        assert encode_chat(loaded.tokenizer, loaded.chat_template, [{"role": "user", "content": "hello"}]) == [262]


def test_pickles_are_refused_by_name(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tiny")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "a pickle (pytorch_model.bin)" in refusal(folder)


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json"])
def test_missing_files(tmp_path: Path, missing: str) -> None:
    folder = write_folder(tmp_path / "tiny")
    (folder / missing).unlink()
    assert f"{missing} is missing" in refusal(folder)


def test_folders_that_hold_no_model(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tiny")
    (folder / "model.safetensors").unlink()
    assert "no *.safetensors file" in refusal(folder)
    for part in ("a", "b"):
        save_file(hf_tensors(), folder / f"{part}.safetensors")
    assert "and no model.safetensors.index.json" in refusal(folder)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"<!DOCTYPE html>", "is a web page"),
        (b"version https://git-lfs.example/spec/v1", "is a git-lfs pointer"),
        (struct.pack("<Q", 1 << 62) + b"{}", "is damaged or cut short"),
        (struct.pack("<Q", 8) + b"notjson!", "is damaged or cut short"),
    ],
)
def test_damaged_weights(tmp_path: Path, content: bytes, reason: str) -> None:
    folder = write_folder(tmp_path / "tiny")
    (folder / "model.safetensors").write_bytes(content)
    assert reason in refusal(folder)


def test_cut_weights(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tiny")
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:-1])
    assert "is damaged or cut short" in refusal(folder)


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("model-00002-of-00002.safetensors", None),
        ("../tiny/model-00001-of-00002.safetensors", "is no file of the folder"),
        ("/elsewhere/model.safetensors", "is no file of the folder"),
        ("model-00009-of-00002.safetensors", "is missing"),
        (7, "is no file of the folder"),
    ],
)
def test_index_entries(tmp_path: Path, place: Any, reason: str | None) -> None:
    folder = write_folder(tmp_path / "tiny", shards=2)
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    index["weight_map"]["model.norm.weight"] = place
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    if reason:
        assert reason in refusal(folder)
    else:
        load_model(folder, device="cpu")


def test_an_index_that_expects_a_tensor_elsewhere(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tiny", shards=2)
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    index["weight_map"]["model.embed_tokens.weight"] = "model-00002-of-00002.safetensors"
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "missing tensor model.embed_tokens.weight, which the folder's index expects there" in refusal(folder)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a": NaN}', "[" * 100_000, '"\ud800"'])
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_json_that_is_no_object(tmp_path: Path, name: str, content: str) -> None:
    folder = write_folder(tmp_path / "tiny")
    (folder / name).write_text(content, errors="surrogatepass")
    assert name in refusal(folder)


READ = [
    "config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja",
    "model.safetensors.index.json", "model.safetensors",
]  # fmt: skip


@pytest.mark.parametrize("kind", NO_FILES)
def test_a_folder_with_something_else_in_the_place_of_a_file(tmp_path: Path, kind: str) -> None:
    for name in READ:
        folder = write_folder(tmp_path / name.replace(".", "_"))
        place(folder, kind, name)
        assert "cannot be read" in refusal(folder)
    folder = write_folder(tmp_path / "more")
    place(folder, kind, "other.safetensors")
    assert load_model(folder, device="cpu").file_sample


def test_a_template_beyond_all_measure_is_refused_and_not_cut(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model")
    (folder / "chat_template.jinja").write_text("{# x #}" * (1 << 18))
    assert "more than 1 MB" in refusal(folder)
    (folder / "chat_template.jinja").unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{# x #}" * (1 << 18)}))
    model = load_model(folder, device="cpu")
    assert model.chat_template is None
    assert any("which none needs" in note for note in model.report.notes)
