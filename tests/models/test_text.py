"""The tokenizer alone: the same one, without weights and without torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from miniinfer.errors import BadInputError, ModelFileError
from miniinfer.models.loader import LoadedModel
from miniinfer.models.text import load_tokenizer, load_tokenizer_file
from miniinfer.tokenization.encoding import encode_steps
from tests.models.tiny_files import TOKENIZER_JSON, write_folder, write_gguf

MESSAGES = [{"role": "user", "content": "Hi"}]


def test_the_same_tokenizer_as_with_the_model(model: LoadedModel, model_path: Path) -> None:
    tokenizer, template = load_tokenizer(model_path)
    assert tokenizer.vocabulary == model.tokenizer.vocabulary
    assert tokenizer.all_token_bytes == model.token_bytes
    assert template is not None
    assert model.chat_template is not None
    assert template.render(MESSAGES) == model.chat_template.render(MESSAGES)


def test_both_formats(tmp_path: Path) -> None:
    first, _ = load_tokenizer(write_gguf(tmp_path / "tiny.gguf"))
    second, _ = load_tokenizer(write_folder(tmp_path / "tiny"))
    assert first.encode("hello the", parse_special=False) == second.encode("hello the", parse_special=False)


def test_torch_is_not_needed(tmp_path: Path) -> None:
    paths = [write_gguf(tmp_path / "tiny.gguf"), write_folder(tmp_path / "tiny")]
    code = (
        "import sys\nfrom miniinfer.models.text import load_tokenizer\n"
        "for path in sys.argv[1:]: load_tokenizer(path)\nassert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code, *map(str, paths)], check=True)


def test_a_tokenizer_json_alone(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tiny")
    alone = tmp_path / "other" / "my-tokenizer.json"
    alone.parent.mkdir()
    alone.write_bytes((folder / "tokenizer.json").read_bytes())
    whole, _ = load_tokenizer(folder)
    tokenizer, template = load_tokenizer_file(alone)
    assert tokenizer.encode("hello the", parse_special=False) == whole.encode("hello the", parse_special=False)
    assert (tokenizer.vocab_size, template) == (len(tokenizer.vocabulary.tokens), None)
    assert load_tokenizer_file(folder)[0].vocabulary == whole.vocabulary


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"normalizer": {"type": "NFC"}}, "changes every text first"),
        ({"pre_tokenizer": {"type": "Metaspace"}}, "does not know"),
        ({"model": {"type": "Unigram", "vocab": {}}}, "knows BPE only"),
    ],
)
def test_what_cannot_be_followed_is_refused(tmp_path: Path, change: dict[str, object], words: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(TOKENIZER_JSON | change))
    with pytest.raises(ModelFileError, match=words):
        load_tokenizer_file(path)
    path.write_text("{")
    with pytest.raises(ModelFileError, match="not valid JSON"):
        load_tokenizer_file(path)


def test_a_byte_whose_only_token_is_a_control_token_is_refused_and_not_dropped(tmp_path: Path) -> None:
    """The library drops it without a word, and our own encoder had no id for it."""
    vocabulary: dict[str, int] = TOKENIZER_JSON["model"]["vocab"]
    added = [*TOKENIZER_JSON["added_tokens"], {"id": vocabulary["z"], "content": "z", "special": True}]
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(TOKENIZER_JSON | {"added_tokens": added}))
    tokenizer, _ = load_tokenizer_file(path)
    with pytest.raises(BadInputError, match=r"no token for the character U\+007A"):
        tokenizer.encode("a z", parse_special=False)
    with pytest.raises(BadInputError, match=r"no token for the character U\+007A"):
        encode_steps(tokenizer, "a z", parse_special=False)
    assert tokenizer.encode("z", parse_special=True) == [vocabulary["z"]]


def test_a_folder_of_gguf_files_names_the_one_to_give(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf")
    with pytest.raises(BadInputError, match=r"folder with GGUF files in it: give the file, tiny\.gguf"):
        load_tokenizer(tmp_path)


def test_what_is_no_file_is_refused_instead_of_read_for_ever() -> None:
    with pytest.raises(BadInputError, match="no file that can be read"):
        load_tokenizer(os.devnull)
