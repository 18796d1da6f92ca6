"""The folder of copies: which one belongs to a load, how large they may be together, and how one is made."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from miniinfer.errors import MiniInferError
from miniinfer.models.converted.layout import Bytes, body_bytes, write
from miniinfer.models.lock import locked
from miniinfer.models.paths import data_home

SWITCH = "MINIINFER_KEEP_WEIGHTS"  # 0: copies are neither made nor used
MOST_BYTES = 2_000_000_000  # of all copies together; those used longest ago go first
SPARE_BYTES = 1_000_000_000  # stay free on the disk
SUFFIX, PART = ".weights", ".part"

State = tuple[int, int, int]


class NotKeptError(MiniInferError):
    """There will be no copy; the sentence says why. The model is none the worse for it."""


def switched_off() -> bool:
    return os.environ.get(SWITCH, "").strip().lower() in ("0", "no", "off", "false")


def copies_folder() -> Path:
    """Where they lie, or would lie. Raises MiniInferError if the system names no home folder."""
    return data_home() / "converted"


def state_of(path: Path) -> State | None:
    """Tells whether a copy is still the one that was looked at; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_ctime_ns


def mark_as_used(path: Path) -> None:
    with suppress(OSError):  # a folder that cannot be written
        os.utime(path)


def make_copy(path: Path, facts: Mapping[str, Any], pieces: Sequence[Bytes], seen: State | None) -> int:
    """Write the copy, atomically; return its size in bytes. seen: what stood there when it was found to be of no use.

    If another process has made it meanwhile, that one stays. Raises NotKeptError; nothing is left behind then.
    """
    size = body_bytes(piece.nbytes for piece in pieces)
    if size > MOST_BYTES:
        raise NotKeptError(f"it takes {size / 1e9:.1f} GB, and all copies together may take {MOST_BYTES / 1e9:.0f} GB")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.parent / "lock", lambda: None):
            if state_of(path) in (None, seen):
                _make_room(path, size)
                _write(path, facts, pieces)
            return path.stat().st_size
    except OSError as error:
        raise NotKeptError(f"the folder of converted weights cannot be written ({error.strerror or error})") from error


def _make_room(path: Path, size: int) -> None:
    """Remove what an interrupted writer left behind, and copies used longest ago. Called with the lock held."""
    for part in path.parent.glob(f"*{PART}"):
        part.unlink(missing_ok=True)
    path.unlink(missing_ok=True)
    free = shutil.disk_usage(path.parent).free
    if free - size < SPARE_BYTES:
        raise NotKeptError(f"the disk has {free / 1e9:.1f} GB free, of which {SPARE_BYTES / 1e9:.0f} GB are for others")
    others = sorted(((p.stat().st_mtime_ns, p.stat().st_size, p) for p in path.parent.glob(f"*{SUFFIX}")), reverse=True)
    for _, its_size, other in others:
        size += its_size
        if size > MOST_BYTES:
            other.unlink(missing_ok=True)


def _write(path: Path, facts: Mapping[str, Any], pieces: Sequence[Bytes]) -> None:
    part = path.with_suffix(f".{os.getpid()}{PART}")
    try:
        with open(part, "wb") as file:
            write(file, facts, pieces)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
