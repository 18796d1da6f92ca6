"""Whether a model's files are still those that were read: replaced while they are read, or since."""

from __future__ import annotations

import hashlib
from pathlib import Path

from miniinfer.strangers import open_file

SAMPLES, SAMPLE_BYTES = 64, 4096  # spread over each file; other weights of the same shapes differ in all of them
READ_SUFFIXES = (".safetensors", ".json", ".jinja")

State = tuple[tuple[str, int, int, int], ...]


def weight_files(path: Path) -> list[Path]:
    return sorted(p for p in path.glob("*.safetensors") if p.is_file()) if path.is_dir() else [path]


def file_bytes(path: Path) -> int:
    """Of a model file, or of all weight files in a folder; 0 if it cannot be read."""
    try:
        return sum(file.stat().st_size for file in weight_files(path))
    except OSError:
        return 0


def file_state(path: Path) -> State:
    """Name, place on the disk, size and time of each file that loading reads; it changes when one of them does."""
    try:
        files = sorted(f for f in path.iterdir() if f.suffix in READ_SUFFIXES) if path.is_dir() else [path]
        found = [(file.name, file.stat()) for file in files]
    except OSError:
        return ()
    return tuple((name, stat.st_ino, stat.st_size, stat.st_mtime_ns) for name, stat in found)


def file_sample(path: Path) -> str:
    """A short hash of the beginning and 64 pieces of each weight file: tells files of the same size apart in
    milliseconds, where a hash of all of it would take seconds. Empty if they cannot be read."""
    found = hashlib.sha256()
    try:
        for each in weight_files(path):
            size = each.stat().st_size
            found.update(size.to_bytes(8, "little"))
            with open_file(each) as file:
                for number in range(SAMPLES):
                    file.seek(max(0, size - SAMPLE_BYTES) * number // (SAMPLES - 1))
                    found.update(file.read(SAMPLE_BYTES))
    except OSError:
        return ""
    return found.hexdigest()[:32]
