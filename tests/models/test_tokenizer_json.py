"""The real vocabulary as a tokenizer.json: merges in either form; the library reading the file itself is the oracle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from miniinfer.models.hf_tokenizer import read_vocabulary
from miniinfer.models.loader import LoadedModel
from miniinfer.models.report import FactReader
from miniinfer.models.tokenizer import Tokenizer
from tests.models.test_tokenizer import MISSING_BYTES
from tests.models.tiny_files import TOKENIZER_JSON


def write_tokenizer_json(folder: Path, model: LoadedModel, *, merges_as_lists: bool) -> Path:
    vocabulary = model.tokenizer.vocabulary
    content = TOKENIZER_JSON | {
        "version": "1.0",
        "added_tokens": [
            {"id": i, "content": vocabulary.tokens[i], "special": True, "single_word": False, "lstrip": False,
             "rstrip": False, "normalized": False}
            for i in sorted(vocabulary.control)
        ],
        "model": {
            "type": "BPE",
            "vocab": {token: i for i, token in enumerate(vocabulary.tokens)},
            "merges": [list(pair) if merges_as_lists else " ".join(pair) for pair in vocabulary.merges],
        },
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, model: LoadedModel) -> list[Path]:
    return [
        write_tokenizer_json(tmp_path_factory.mktemp("form"), model, merges_as_lists=as_lists)
        for as_lists in (True, False)
    ]


def test_both_forms_of_merges_are_the_vocabulary_of_the_gguf(folders: list[Path], model: LoadedModel) -> None:
    for folder in folders:
        read = read_vocabulary(folder, FactReader(folder, {"eos_token_id": 2, "bos_token_id": 1}), {}, 49152)
        assert read == model.tokenizer.vocabulary


@pytest.fixture(scope="module")
def pair(folders: list[Path]) -> tuple[Tokenizer, tokenizers.Tokenizer]:
    folder = folders[0]
    vocabulary = read_vocabulary(folder, FactReader(folder, {}), {}, 49152)
    return Tokenizer(vocabulary, 49152, "tiny"), tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


SPELLINGS = st.sampled_from(["<|im_start|>", "<|im_end|>", "<repo_name>", "<|im_", "\n", "  ", "1234", " ½", "é", "🙂"])


@settings(max_examples=200, deadline=None)
@given(parts=st.lists(SPELLINGS | st.text(max_size=8), max_size=8), parse_special=st.booleans())
def test_ids_equal_the_librarys_own_pipeline(
    pair: tuple[Tokenizer, tokenizers.Tokenizer], parts: list[str], parse_special: bool
) -> None:
    ours, theirs = pair
    text = "".join(character for character in "".join(parts) if MISSING_BYTES.isdisjoint(character.encode()))
    theirs.encode_special_tokens = not parse_special
    assert ours.encode(text, parse_special=parse_special) == theirs.encode(text, add_special_tokens=False).ids
