"""The model file is replaced, cut short or taken away: while it is read, and between two loads."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import patch

import pytest

from miniinfer.errors import MiniInferError, ModelFileError
from miniinfer.models import loader
from miniinfer.models.build import Builder
from miniinfer.models.file_state import file_sample, file_state
from miniinfer.models.loader import load_model
from tests.models.tiny_files import METADATA, gguf_bytes, gguf_tensors, hf_tensors, write_folder, write_gguf

OTHER = gguf_bytes(METADATA, gguf_tensors(hf_tensors(seed=1)))


def in_the_middle(act) -> object:  # type: ignore[no-untyped-def]
    """While layer 1 is read, something happens to the file."""
    honest = Builder.layer

    def layer(self: Builder, number: int, config: object) -> object:
        if number == 1:
            act()
        return honest(self, number, config)  # type: ignore[arg-type]

    return patch.object(Builder, "layer", layer)


def written_over(path: Path) -> None:
    with open(path, "r+b") as file:
        file.write(OTHER)


def put_in_its_place(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(OTHER)
    os.replace(other, path)


@pytest.mark.parametrize("act", [written_over, put_in_its_place, lambda path: os.truncate(path, 5000), os.unlink])
def test_a_file_that_changes_while_it_is_read(tmp_path: Path, act) -> None:  # type: ignore[no-untyped-def]
    path = write_gguf(tmp_path / "a.gguf")
    os.utime(path, (1, 1))  # so that the clock of the file system need not have moved on
    with in_the_middle(lambda: act(path)), pytest.raises(ModelFileError, match=r"while it was read.*again\.$"):
        load_model(path, device="cpu")
    if path.exists() and path.stat().st_size == len(OTHER):
        assert load_model(path, device="cpu").file_sample == file_sample(path)


def test_a_file_that_is_replaced_between_its_header_and_its_tensors(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "a.gguf")
    honest = loader.check_tensors

    def check(*args: object) -> None:
        put_in_its_place(path)
        honest(*args)  # type: ignore[arg-type]

    with patch.object(loader, "check_tensors", check), pytest.raises(ModelFileError, match="while it was read"):
        load_model(path, device="cpu")


@pytest.mark.parametrize("size", [0, 7, 100, 40_000])
def test_a_folder_whose_weights_are_cut_short_while_they_are_read(tmp_path: Path, size: int) -> None:
    """A mapped file would end the process here: SIGBUS."""
    folder = write_folder(tmp_path / "folder")
    weights = folder / "model.safetensors"
    with in_the_middle(lambda: os.truncate(weights, size)), pytest.raises(MiniInferError, match="shorter while"):
        load_model(folder, device="cpu")


def test_the_same_size_and_other_weights_have_another_sample(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "a.gguf")
    first = load_model(path, device="cpu")
    assert (first.file_bytes, first.file_state) == (path.stat().st_size, file_state(path))
    put_in_its_place(path)
    assert path.stat().st_size == first.file_bytes
    assert file_state(path) != first.file_state
    assert file_sample(path) != first.file_sample
    assert file_sample(tmp_path / "nothing") == ""
    assert file_state(tmp_path / "nothing") == ()
