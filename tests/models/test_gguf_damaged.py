"""Files that are not what they claim: the message names the real cause, and nothing else breaks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from miniinfer.errors import ModelFileError
from miniinfer.models.gguf import read_header
from miniinfer.models.loader import LoadedModel, load_model

SIZE, DATA_START = 98_362_432, 1_785_664


@pytest.fixture(scope="module")
def header_bytes(model_path: Path) -> bytes:
    with open(model_path, "rb") as file:
        return file.read(DATA_START)


def cut(path: Path, header_bytes: bytes, size: int) -> Path:
    """A file of that size with the real header (its data are a hole: they are not looked at)."""
    with open(path, "wb") as file:
        file.write(header_bytes)
        file.truncate(size)
    return path


def test_the_whole_file(model_path: Path) -> None:
    header = read_header(model_path)
    assert (header.file_bytes, header.data_start, len(header.tensors)) == (SIZE, DATA_START, 272)
    assert max(info.offset + info.nbytes for info in header.tensors.values()) == SIZE
    assert header.tensors["blk.0.ffn_down.weight"].shape == (576, 1536)


@pytest.mark.parametrize(
    ("size", "first", "outside"),
    [
        (50_000_000, "blk.16.ffn_down.weight", 198),
        (SIZE - 1, "output_norm.weight", 1),
        (DATA_START, "token_embd.weight", 272),
    ],
)
def test_cut_data(tmp_path: Path, header_bytes: bytes, size: int, first: str, outside: int) -> None:
    path = cut(tmp_path / "cut.gguf", header_bytes, size)
    with pytest.raises(ModelFileError) as caught:
        load_model(path)
    for part in ("cut.gguf", str(size), str(SIZE), f"{outside} of its 272", f"first is {first};", "truncated?"):
        assert part in str(caught.value)


def test_cut_header(tmp_path: Path, header_bytes: bytes) -> None:
    path = cut(tmp_path / "cut.gguf", header_bytes, 1000)
    with pytest.raises(ModelFileError, match=r"cut\.gguf ends inside its header.*has 1000 in all.*truncated"):
        load_model(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"<!DOCTYPE html><html><body>Not found</body></html>", "is a web page"),
        (b"\xef\xbb\xbf\n <HTML>", "is a web page"),
        (b"version https://git-lfs.example/spec/v1\noid sha256:0123\nsize 98362432\n", "is a git-lfs pointer"),
        (b"PK\x03\x04" + b"\0" * 100, "is a pickle or zip archive"),
        (b"\x80\x02}q\x00." + b"\0" * 100, "is a pickle or zip archive"),
        (b"tjgg" + b"\0" * 100, "has a format older than GGUF"),
        (b"{}" * 100, "is not a GGUF file"),
    ],
)
def test_other_files_under_the_name(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=rf"model\.gguf {reason}"):
        load_model(path)


def test_a_renamed_tensor_is_missing_not_corrupt(tmp_path: Path, header_bytes: bytes) -> None:
    renamed = header_bytes.replace(b"blk.3.ffn_up.weight", b"blk.3.ffn_pu.weight")
    path = cut(tmp_path / "renamed.gguf", renamed, SIZE)
    with pytest.raises(ModelFileError, match=r"missing tensor blk\.3\.ffn_up\.weight\.$"):
        load_model(path)


def test_the_model_loaded_before_stays_usable(model: LoadedModel, tmp_path: Path) -> None:
    x = torch.ones(1, 576)
    before = model.weights.unembed(x)
    (tmp_path / "bad.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelFileError, match="ends inside its header"):
        load_model(tmp_path / "bad.gguf")
    assert torch.equal(model.weights.unembed(x), before)
    assert model.tokenizer.encode("Hello", parse_special=False) == [19556]
