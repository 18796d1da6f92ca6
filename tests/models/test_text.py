"""The tokenizer alone: the same one, without weights and without torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from miniinfer.models.loader import LoadedModel
from miniinfer.models.text import load_tokenizer
from tests.models.tiny_files import write_folder, write_gguf

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
