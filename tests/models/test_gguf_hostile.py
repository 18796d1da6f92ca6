"""Headers written to do harm: each is a ModelFileError, quickly and without much memory."""

from __future__ import annotations

import struct
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miniinfer.errors import MiniInferError, ModelFileError
from miniinfer.models.gguf import read_header
from miniinfer.models.loader import load_model
from tests.models.tiny_files import (
    ARRAY,
    BOOL,
    METADATA,
    STRING,
    U32,
    U64,
    gguf_bytes,
    gguf_tensors,
    hf_tensors,
    text,
    write_gguf,
)  # fmt: skip

F32_ROW = {"x": (0, (2, 32), b"\0" * 256)}
HUGE = 1 << 33


def array(kind: int, count: int, raw: bytes = b"") -> bytes:
    return struct.pack("<IIQ", ARRAY, kind, count) + raw


def refusal(path: Path, content: bytes) -> str:
    """The message for a file of these bytes; fails if reading it costs much."""
    path.write_bytes(content)
    tracemalloc.start()
    start = time.monotonic()
    try:
        with pytest.raises(ModelFileError) as caught:
            read_header(path)
        assert time.monotonic() - start < 30  # a hang, not a speed
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
    assert path.name in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (array(STRING, HUGE), "ends inside its header"),
        (array(U32, HUGE), "ends inside its header"),
        (array(STRING, (1 << 64) - 1), "ends inside its header"),
        (array(STRING, 1, struct.pack("<Q", 1 << 62)), "ends inside its header"),
        (struct.pack("<IQ", STRING, (1 << 64) - 1), "ends inside its header"),
        (array(ARRAY, 1, struct.pack("<IQ", ARRAY, 1) * 100_000), "array of arrays"),
        (struct.pack("<II", 99, 0), "type number 99"),
        (array(99, 1, b"\0" * 8), "type number 99"),
        (struct.pack("<IB", BOOL, 7), "holds 7 where true or false"),
        (struct.pack("<I", STRING) + text(b"\xff\xfe"), "not UTF-8"),
    ],
)
def test_values(tmp_path: Path, value: bytes, reason: str) -> None:
    message = refusal(tmp_path / "a.gguf", gguf_bytes([("key", value)], F32_ROW))
    assert reason in message
    assert "key" in message


def test_lists_of_nothing_but_empty_texts(tmp_path: Path) -> None:
    """Few bytes each, and together a minute of work."""
    path = tmp_path / "a.gguf"
    path.write_bytes(gguf_bytes([("k", array(STRING, 100_000, bytes(800_000)))], F32_ROW))
    assert len(read_header(path).metadata["k"]) == 100_000  # type: ignore[arg-type]
    path.write_bytes(gguf_bytes([("k", array(STRING, 1_600_000, bytes(8 * 1_600_000)))], F32_ROW))
    with pytest.raises(ModelFileError, match="more than 1,500,000 texts"):
        read_header(path)


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        ((HUGE, 0), "which no model has"),
        ((0, HUGE), "which no model has"),
        ((60_000, 0), "ends inside"),
        ((0, 60_000), "ends inside"),
    ],
)
def test_counts(tmp_path: Path, counts: tuple[int, int], reason: str) -> None:
    assert reason in refusal(tmp_path / "a.gguf", b"GGUF" + struct.pack("<IQQ", 3, *counts) + b"\0" * 64)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ([("same", 1), ("same", 2)], "the key same twice"),
        ([("", 1)], "name of 0 characters"),
        ([("k" * 300, 1)], "name of 300 characters"),
        ([(b"\xff", 1)], "not UTF-8"),
        ([("general.alignment", 0)], "general.alignment 0"),
        ([("general.alignment", 48)], "general.alignment 48"),
        ([("general.alignment", "32")], "general.alignment '32'"),
        ([("general.alignment", 1 << 30)], "general.alignment 1073741824"),
    ],
)
def test_keys(tmp_path: Path, keys: list[tuple[Any, Any]], reason: str) -> None:
    assert reason in refusal(tmp_path / "a.gguf", gguf_bytes(keys, F32_ROW))


def tensor(name: str, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


@pytest.mark.parametrize(
    ("infos", "reason"),
    [
        ([tensor("x", (32,), 0, 0), tensor("x", (32,), 0, 128)], "the tensor x twice"),
        ([tensor("x", (32,), 0, 1 << 62)], "x; was the download truncated?"),
        ([tensor("x", (32,), 0, (1 << 64) - 32)], "x the impossible offset"),
        ([tensor("x", (32,), 0, 4)], "x the impossible offset 4"),
        ([tensor("x", (32, 0), 0, 0)], "x the impossible shape [0, 32]"),
        ([tensor("x", (1 << 32, 1 << 32), 0, 0)], "x the impossible shape"),
        ([tensor("x", (1 << 40,), 0, 0)], "x; was the download truncated?"),
        ([tensor("x", (), 0, 0)], "x 0 dimensions"),
        ([tensor("x", (1,) * 5, 0, 0)], "x 5 dimensions"),
        ([tensor("x", (33,), 8, 0)], "blocks hold 32 elements, in rows of 33"),
        ([tensor("x", (32,), 0, 0), tensor("y", (32,), 0, 64)], "x and y overlap"),
        ([tensor("n" * 300, (32,), 0, 0)], "name of 300 characters"),
        ([text("x") + struct.pack("<I", 0xFFFFFFFF)], "dimensions"),
    ],
)
def test_tensors(tmp_path: Path, infos: list[bytes], reason: str) -> None:
    content = b"GGUF" + struct.pack("<IQQ", 3, len(infos), 0) + b"".join(infos) + b"\0" * 300
    assert reason in refusal(tmp_path / "a.gguf", content)


@pytest.mark.parametrize(
    ("version", "reason"),
    [(1, "GGUF version 1,"), (4, "GGUF version 4,"), (3 << 24, "in big-endian order")],
)
def test_versions(tmp_path: Path, version: int, reason: str) -> None:
    assert reason in refusal(tmp_path / "a.gguf", gguf_bytes({}, F32_ROW, version=version))


def test_a_huge_header_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("key") + array(U64, 1 << 30))
        file.truncate(1 << 34)
    with pytest.raises(ModelFileError, match="a header of more than 64 MiB"):
        read_header(path)


def test_unknown_tensor_types_are_listed_by_name(tmp_path: Path) -> None:
    infos = {
        "blk.0.ffn_up.weight": (20, (1, 32), b"\0" * 18),
        "blk.0.ffn_down.weight": (10, (1, 256), b"\0" * 84),
        "y": (99, (1, 32), b"\0" * 32),
    }
    message = refusal(tmp_path / "a.gguf", gguf_bytes({}, infos))
    assert "blk.0.ffn_up.weight (IQ4_NL), blk.0.ffn_down.weight (Q2_K), y (unknown type 99)" in message
    assert "F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, BF16" in message


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = write_gguf(tmp_path_factory.mktemp("good") / "good.gguf")
    load_model(path)
    return path.read_bytes()


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damaged_bytes_load_or_are_refused(tmp_path_factory: Any, good: bytes, data: st.DataObject) -> None:
    header = len(good) - len(gguf_bytes({}, gguf_tensors(hf_tensors()))) + 1000
    content = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, header))
        new = data.draw(st.binary(min_size=1, max_size=8))
        content[place : place + len(new)] = new
    path = tmp_path_factory.getbasetemp() / "damaged.gguf"
    path.write_bytes(content)
    with suppress(MiniInferError):
        load_model(path)


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_cut_files_are_refused(tmp_path_factory: Any, good: bytes, data: st.DataObject) -> None:
    path = tmp_path_factory.getbasetemp() / "cut.gguf"
    path.write_bytes(good[: data.draw(st.integers(0, len(good) - 1))])
    with pytest.raises(ModelFileError):
        load_model(path)


def refused_or_loaded(path: Path) -> str:
    """The message, or nothing."""
    try:
        load_model(path)
    except MiniInferError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("key", sorted(METADATA))
def test_any_value_under_any_key(tmp_path: Path, key: str) -> None:
    values: list[Any] = [0, -1.0, float("nan"), "", "x", True, [], ["x"], ["x"] * 999, (1 << 32) - 1]
    for value in values:
        path = write_gguf(tmp_path / "a.gguf", METADATA | {key: value})
        assert len(refused_or_loaded(path)) < 600
