"""A second load takes its matrices from a copy: the same bits; and whatever is wrong with a copy, the model loads."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine import onednn
from miniinfer.engine.engine import Engine
from miniinfer.models.converted import copies, memory
from miniinfer.models.converted.layout import BLOCK
from miniinfer.models.loader import LoadedModel, load_model
from tests.faults_of_the_machine.permissions import read_only
from tests.models.test_packed import stored
from tests.models.tiny_files import METADATA, gguf_tensors, hf_tensors, write_folder, write_gguf

FORMS = ["float32", "bfloat16", "packed"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv(copies.SWITCH, "1")
    monkeypatch.setenv("MINIINFER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "a.gguf", METADATA, stored("Q4_1", gguf_tensors(hf_tensors()), "blk"))


def load(path: Path, dtype: str = "float32", *, keep: bool = True) -> LoadedModel:
    model = load_model(path, device="cpu", dtype=dtype)
    assert model.conversion is not None
    if keep:
        model.conversion.keep()
    return model


def from_copy(model: LoadedModel) -> bool:
    assert model.conversion is not None
    return model.conversion.from_copy


def the_copy(home: Path) -> Path:
    (found,) = (home / "converted").glob("*.weights")
    return found


def logits(model: LoadedModel, tokens: int = 6) -> list[Tensor]:
    """Of a prefill and some steps: products with many rows and with one."""
    engine, seen = Engine(model, EngineConfig(max_num_batched_tokens=32)), []
    engine.add_request([1, 5, 9, 2, 7], SamplingParams(max_new_tokens=tokens, temperature=0))
    while engine.step(lambda stage, state: seen.append(state.logits) if stage.name == "unembed" else None):
        pass
    return seen


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("dtype", FORMS)
def test_the_second_load_is_the_first_bit_for_bit(path: Path, dtype: str, mapped: bool, monkeypatch) -> None:
    monkeypatch.setattr(memory, "large_share", lambda memory: float(mapped))
    first = load(path, dtype)
    second = load(path, dtype)
    assert not from_copy(first)
    assert from_copy(second)
    assert ("mapped" if mapped else "read") in second.conversion.sentence  # type: ignore[union-attr]
    assert second.report.kept == first.report.kept
    assert second.report.memory_bytes == first.report.memory_bytes
    assert "prepack and place" in first.report.seconds
    assert "prepack and place" not in second.report.seconds
    for ours, theirs in zip(matrices(second), matrices(first), strict=True):
        assert type(ours) is type(theirs)
        assert (ours.storage, ours.nbytes, ours.prepacked) == (theirs.storage, theirs.nbytes, theirs.prepacked)
        assert torch.equal(ours.to_dense(), theirs.to_dense())
    for ours, theirs in zip(logits(second), logits(first), strict=True):
        assert torch.equal(ours, theirs)
    del first
    assert logits(second)  # nothing of the first is needed


def matrices(model: LoadedModel):  # type: ignore[no-untyped-def]
    return [m for la in model.weights.layers for m in (la.qkv, la.attn_out, la.gate_up, la.down)] + [
        model.weights.unembed
    ]


def test_a_folder_has_a_copy_too(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "folder")
    first, second = load(folder), load(folder)
    assert (from_copy(first), from_copy(second)) == (False, True)
    assert torch.equal(second.weights.unembed.to_dense(), first.weights.unembed.to_dense())


def test_each_precision_has_a_copy_of_its_own(path: Path) -> None:
    assert [from_copy(load(path, dtype)) for dtype in FORMS * 2] == [False] * 3 + [True] * 3


def flip(copy: Path) -> None:
    content = bytearray(copy.read_bytes())
    content[3000] ^= 1
    copy.write_bytes(content)


def put_another_models_there(copy: Path) -> None:
    other = write_gguf(copy.parents[1] / "other.gguf", METADATA, gguf_tensors(hf_tensors(seed=1)))
    load(other)
    (its_copy,) = set(copy.parent.glob("*.weights")) - {copy}
    os.replace(its_copy, copy)


SPOILERS = [
    flip, lambda copy: os.truncate(copy, 1000), lambda copy: os.truncate(copy, BLOCK),
    lambda copy: os.truncate(copy, 0), lambda copy: copy.write_bytes(b"x" * 5000),
    lambda copy: (copy.unlink(), copy.mkdir()),
]  # fmt: skip


@pytest.mark.parametrize("spoil", SPOILERS)
def test_a_copy_that_is_spoiled_is_made_again(path: Path, home: Path, spoil: Callable[[Path], object]) -> None:
    wanted = logits(load(path))
    spoil(the_copy(home))
    second = load(path)
    assert not from_copy(second)
    assert all(torch.equal(a, b) for a, b in zip(logits(second), wanted, strict=True))
    if the_copy(home).is_file():
        assert from_copy(load(path))


def test_the_copy_of_another_model_under_this_name(path: Path, home: Path) -> None:
    wanted = logits(load(path))
    put_another_models_there(the_copy(home))
    assert all(torch.equal(a, b) for a, b in zip(logits(load(path)), wanted, strict=True))


def test_a_model_file_that_is_replaced_has_another_copy(path: Path) -> None:
    first = load(path)
    before = path.stat()
    write_gguf(path, METADATA, stored("Q4_1", gguf_tensors(hf_tensors(seed=1)), "blk"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    second = load(path)
    assert not from_copy(second)
    assert not torch.equal(second.weights.unembed.to_dense(), first.weights.unembed.to_dense())
    assert from_copy(load(path))


def test_a_hard_link_changes_nothing(path: Path) -> None:
    load(path)
    os.link(path, path.with_name("another name of it"))
    assert from_copy(load(path))


def test_switched_off(path: Path, home: Path, monkeypatch) -> None:
    load(path)
    monkeypatch.setenv(copies.SWITCH, "0")
    second = load(path)
    assert not from_copy(second)
    assert copies.SWITCH in second.conversion.sentence  # type: ignore[union-attr]
    shutil.rmtree(home)
    load(path)
    assert not home.exists()


def test_a_torch_that_cannot_say_how_a_matrix_lies(path: Path, home: Path, monkeypatch) -> None:
    monkeypatch.setattr(onednn, "can_describe", lambda: False)
    assert "none is kept" in load(path).conversion.sentence  # type: ignore[union-attr]
    assert not (home / "converted").exists()


def test_a_folder_that_cannot_be_written(path: Path, home: Path) -> None:
    home.mkdir()
    with read_only(home):
        model = load(path)
    assert "No copy is kept" in model.conversion.sentence  # type: ignore[union-attr]
    assert logits(model)


def test_a_disk_with_too_little_room(path: Path, home: Path, monkeypatch) -> None:
    monkeypatch.setattr(copies, "SPARE_BYTES", 1 << 60)
    assert "GB free" in load(path).conversion.sentence  # type: ignore[union-attr]
    assert not list((home / "converted").glob("*.weights"))


def test_a_disk_that_is_full_before_it_says_so(path: Path, home: Path, monkeypatch) -> None:
    def full(file, facts, pieces) -> None:  # type: ignore[no-untyped-def]
        file.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(copies, "write", full)
    model = load(path)
    assert "No space left" in model.conversion.sentence  # type: ignore[union-attr]
    assert [file.name for file in (home / "converted").iterdir()] == ["lock"]


def test_the_copies_used_longest_ago_make_room(path: Path, home: Path, monkeypatch) -> None:
    monkeypatch.setattr(copies, "MOST_BYTES", 2 * (BLOCK + 100_000))
    load(path, "float32")
    os.utime(the_copy(home), (1, 1))
    load(path, "bfloat16")
    load(path, "packed")
    assert [from_copy(load(path, dtype, keep=False)) for dtype in FORMS] == [False, True, True]


def test_what_an_interrupted_writer_left_is_removed(path: Path, home: Path) -> None:
    (home / "converted").mkdir(parents=True)
    (home / "converted" / "old.123.part").write_bytes(b"half")
    load(path)
    assert {file.suffix for file in (home / "converted").iterdir()} == {".weights", ""}


def test_in_the_background(path: Path) -> None:
    model = load(path, keep=False)
    assert model.conversion is not None
    writer = model.conversion.keep_in_background()
    assert writer is not None
    writer.join()
    assert "The next start" in model.conversion.sentence
    again = load(path)
    assert from_copy(again)
    assert again.conversion.keep_in_background() is None  # type: ignore[union-attr]
