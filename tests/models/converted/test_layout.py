"""The file of converted weights: what was written comes back, and nothing else is taken for it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from miniinfer.models.converted import memory
from miniinfer.models.converted.layout import (
    ALIGNMENT,
    BLOCK,
    TAIL,
    UnusableCopyError,
    open_copy,
    places,
    read_footer,
    write,
)  # fmt: skip
from miniinfer.models.converted.memory import Body, load_body

SIZES = [1, ALIGNMENT, BLOCK - ALIGNMENT, BLOCK + 17, 3, 2 * BLOCK]


def pieces() -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.integers(0, 256, size, dtype=np.uint8) for size in SIZES]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "a.weights"
    with open(path, "wb") as file:
        write(file, {"who": "a test"}, pieces())
    return path


def loaded(path: Path) -> Body:
    with open_copy(path) as file:
        return load_body(file, read_footer(file))


@pytest.mark.parametrize("mapped", [True, False])
def test_every_piece_comes_back_mapped_or_read(written: Path, mapped: bool, monkeypatch) -> None:
    monkeypatch.setattr(memory, "large_share", lambda memory: float(mapped))
    body = loaded(written)
    assert body.mapped is mapped
    for at, piece in zip(places(SIZES), pieces(), strict=True):
        assert at % ALIGNMENT == 0
        assert np.array_equal(body.bytes[at : at + len(piece)], piece)
    with pytest.raises(ValueError, match="read-only"):
        body.bytes[0] = 1
    written.unlink()  # whoever deletes the copies while the app runs takes nothing from it
    assert body.bytes[: SIZES[0]] == pieces()[0]


def test_the_facts_come_back(written: Path) -> None:
    with open_copy(written) as file:
        assert read_footer(file).facts == {"who": "a test"}


@pytest.mark.parametrize("place", [0, BLOCK // 2, BLOCK, -TAIL.size - 1, -TAIL.size - 100, -TAIL.size, -9, -1])
def test_a_single_bit_that_has_changed(written: Path, place: int) -> None:
    content = bytearray(written.read_bytes())
    content[place] ^= 16
    written.write_bytes(content)
    with pytest.raises(UnusableCopyError):
        loaded(written)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99, 0.999999])
def test_a_file_that_was_cut_short(written: Path, share: float) -> None:
    os.truncate(written, int(written.stat().st_size * share))
    with pytest.raises(UnusableCopyError):
        loaded(written)


def test_blocks_that_have_changed_places(written: Path) -> None:
    content = written.read_bytes()
    written.write_bytes(content[BLOCK : 2 * BLOCK] + content[:BLOCK] + content[2 * BLOCK :])
    with pytest.raises(UnusableCopyError):
        loaded(written)


@pytest.mark.parametrize("content", [b"", b"x", bytes(100), bytes(BLOCK + TAIL.size), b"GGUF" * 1000])
def test_a_file_of_another_kind(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(UnusableCopyError):
        loaded(path)


def test_pages_that_are_small_are_no_large_ones(written: Path) -> None:
    """What the system says of memory of our own, which is no mapped file: there is no share of it in large pages."""
    own = np.zeros(2 * BLOCK, np.uint8)
    assert memory.large_share(own) == 0.0
    assert 0.0 <= memory.large_share(loaded(written).bytes) <= 1.0
