"""Files and JSON of strangers: no pipe is waited for, no device read without end, no text becomes more than it may."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from miniinfer.strangers import MAX_VALUES, open_file, parse_json, read_file, read_stream

NO_FILES = ["pipe", "device", "folder"]


def place(folder: Path, kind: str, name: str = "x") -> Path:
    """Something of this kind at folder/name, in place of what is there."""
    path = folder / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    return path


@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_file_is_not_read(tmp_path: Path, kind: str) -> None:
    with pytest.raises(OSError, match=r"pipe or a device|Is a directory"):
        open_file(place(tmp_path, kind))


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    (tmp_path / "link").symlink_to(path)
    assert read_file(tmp_path / "link", 5) == b"12345"
    with pytest.raises(ValueError, match="more than 4 bytes"):
        read_file(path, 4)
    os.truncate(path, 1 << 42)  # takes no room on the disk
    with pytest.raises(ValueError, match="more than 1 MB"):
        read_file(path, 1 << 20)
    with pytest.raises(ValueError, match="more than 1 MB"):
        read_stream(io.BytesIO(bytes(3 << 20)), 1 << 20)


def test_json_is_utf8_says_each_thing_once_and_has_an_end() -> None:
    assert parse_json(b'\xef\xbb\xbf{"a": [1, {"a": null}]}') == {"a": [1, {"a": None}]}
    assert parse_json(b"[Infinity]", str) == ["Infinity"]
    for text, why in (
        (b'{"a": 1, "b": {"c": 1, "c": 1}}', "the field 'c' stands twice"),
        (b'{"a": NaN}', "NaN is not a number"),
        (b"[" + b"9" * 5000 + b"]", "a whole number of thousands of digits$"),
        (json.dumps({"a": 1}).encode("utf-16"), "utf-8"),
        (b"[" + b"[]," * (MAX_VALUES // 2) + b"1]", "more than 3,000,000 values"),
    ):
        with pytest.raises(ValueError, match=why):
            parse_json(text)
    with pytest.raises(RecursionError):
        parse_json(b"[" * 100_000)
