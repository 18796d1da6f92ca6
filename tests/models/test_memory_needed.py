"""A model that cannot fit into memory is refused before anything of it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from miniinfer.errors import NoMemoryError
from miniinfer.models import loader, memory_needed
from miniinfer.models.build import Builder
from miniinfer.models.loader import load_model
from tests.models.test_packed import stored
from tests.models.tiny_files import CONFIG, METADATA, gguf_tensors, hf_tensors, write_folder, write_gguf


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What was worked out for each model that is loaded: its weights, in bytes."""
    worked_out: list[int] = []

    def check(source, config, dtype, device) -> None:  # type: ignore[no-untyped-def]
        worked_out.append(memory_needed.weights_bytes(source, config, dtype, device.type))

    monkeypatch.setattr(loader, "check_it_fits", check)
    return worked_out


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "packed"])
@pytest.mark.parametrize("kind", ["F32", "Q4_0"])
def test_what_is_worked_out_is_what_the_weights_hold(tmp_path: Path, seen: list[int], dtype: str, kind: str) -> None:
    tensors = gguf_tensors(hf_tensors())
    path = write_gguf(tmp_path / "a.gguf", METADATA, tensors if kind == "F32" else stored(kind, tensors))
    assert load_model(path, device="cpu", dtype=dtype).weight_bytes == seen[0]


@pytest.mark.parametrize("tied", [True, False])
def test_of_a_folder_too(tmp_path: Path, seen: list[int], tied: bool) -> None:
    config = dict(CONFIG) | {"tie_word_embeddings": tied}
    folder = write_folder(tmp_path / "model", config, tensors=hf_tensors(tied=tied))
    assert load_model(folder, device="cpu").weight_bytes == seen[0]


def test_the_default_model(model, model_path: Path, seen: list[int], monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(Builder, "build", lambda *_: pytest.fail("enough is known"))
    with pytest.raises(pytest.fail.Exception):
        load_model(model_path, device="cpu")
    assert model.weight_bytes == seen[0]


@pytest.mark.parametrize(("dtype", "way"), [
    ("bfloat16", "choose the precision bfloat16, or close other programs."),
    (None, "close other programs, let runs of other models go (page Model), or take a smaller model."),
])  # fmt: skip
def test_too_little_is_one_sentence_and_nothing_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str | None, way: str
) -> None:
    """There is just enough for this precision, or for none."""

    def free_for(source, config, asked, device) -> None:  # type: ignore[no-untyped-def]
        enough = memory_needed.passing_bytes(source, config, asked)
        enough += memory_needed.weights_bytes(source, config, dtype, "cpu") if dtype else 0
        monkeypatch.setattr(memory_needed, "free_bytes", lambda: enough)
        memory_needed.check_it_fits(source, config, asked, device)

    monkeypatch.setattr(loader, "check_it_fits", free_for)
    monkeypatch.setattr(Builder, "build", lambda *_: pytest.fail("it was read"))
    with pytest.raises(NoMemoryError) as caught:
        load_model(write_folder(tmp_path / "model"), device="cpu")
    said = str(caught.value)
    assert said.startswith("model needs 1 MB of memory in float32, and ")
    assert said.endswith(f" MB are free on this machine: {way}")


def test_where_the_system_does_not_say_it_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_needed, "free_bytes", lambda: None)
    assert load_model(write_folder(tmp_path / "model"), device="cpu").weight_bytes
