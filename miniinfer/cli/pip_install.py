"""Run the steps that make `.venv`, and say in one sentence why one of them failed. Standard library only."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from miniinfer.errors import FetchError, MiniInferError

KEPT_LINES = 40
PATIENCE_SECONDS = 5

# Signs in pip's own words, each with the sentence that it means; the first that fits is told.
_NO_SPACE = ("No space left on device", "Errno 28", "WinError 112", "Disk quota exceeded")
_NO_NETWORK = (
    "NewConnectionError", "NameResolutionError", "ConnectTimeoutError", "Failed to establish a new connection",
    "Temporary failure in name resolution", "Network is unreachable", "getaddrinfo failed", "Read timed out",
    "Connection refused", "Connection reset", "Connection aborted", "ProxyError", "Cannot connect to proxy",
    "ReadTimeoutError", "IncompleteRead", "Connection broken",
)  # fmt: skip
_CERTIFICATE = ("CERTIFICATE_VERIFY_FAILED", "SSLCertVerificationError", "SSLError")
_NOT_OFFERED = ("No matching distribution found", "Could not find a version that satisfies")
_HASH = ("DO NOT MATCH THE HASHES", "hash mismatch")
_IN_USE = ("WinError 32", "WinError 5]")


def run_quietly(command: Sequence[str], folder: Path, inherited: Sequence[int] = ()) -> tuple[int, str]:
    """Run a command with its output on our stderr; return its exit status and the end of what it said.

    Its errors are kept instead of shown, since the caller tells them in one sentence. `inherited` are file
    descriptors that the command keeps open (POSIX). On Ctrl-C the command, which gets it too, is waited for.
    """
    kept: deque[str] = deque(maxlen=KEPT_LINES)
    # pip draws its progress bar on stdout and writes its errors to stderr. Our own stdout belongs to data.
    shown = sys.stderr if _is_a_file(sys.stderr) else subprocess.DEVNULL
    process = subprocess.Popen(
        list(command), cwd=folder, stdin=subprocess.DEVNULL, stdout=shown, stderr=subprocess.PIPE, text=True,
        encoding="utf-8", errors="replace", pass_fds=tuple(inherited) if sys.platform != "win32" else (),
    )  # fmt: skip
    assert process.stderr is not None
    reader = threading.Thread(target=kept.extend, args=(process.stderr,), daemon=True)
    reader.start()
    try:
        process.wait()
    except BaseException:
        _let_end(process)
        raise
    reader.join()
    process.stderr.close()
    return process.returncode, "".join(kept)


def _let_end(process: subprocess.Popen[str]) -> None:
    """Ctrl-C in a terminal reaches pip too, which then cleans up; a pip that heard nothing is ended."""
    try:
        process.wait(PATIENCE_SECONDS)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()


def _is_a_file(stream: object) -> bool:
    try:
        return stream.fileno() >= 0  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return False


def refusal(said: str, folder: Path) -> MiniInferError:
    """The sentence for a failed installation into `folder`, from the end of what pip said.

    A FetchError means that pip gave up while fetching, before it changed anything.
    """

    def has(signs: Sequence[str]) -> bool:
        return any(sign in said for sign in signs)

    if has(_NO_SPACE):
        return no_space(folder)
    if has(_CERTIFICATE):
        return FetchError(
            "The packages could not be fetched because a certificate was not accepted; set pip's `cert` option "
            "(pip config set global.cert FILE) to your network's certificate and start again."
        )
    if has(_HASH):
        return FetchError(
            "A package arrived with a wrong hash and was thrown away; run `pip cache purge`, check which index or "
            "mirror pip is set to use, and start again."
        )
    if has(_NO_NETWORK):
        return FetchError(
            "The packages could not be fetched because the package index did not answer; connect to the network, "
            "or set pip's proxy or index (pip config), and start again."
        )
    if has(_IN_USE):
        return MiniInferError(f"Another program is using {folder}; close it and start again.")
    if has(_NOT_OFFERED):
        wanted = next((line for line in said.splitlines() if _NOT_OFFERED[0] in line), "")
        name = wanted.rpartition(" for ")[2].strip() or "A package"
        return FetchError(
            f"{name} is not offered for Python {sys.version_info[0]}.{sys.version_info[1]} on this system by the index "
            "that pip is set to use; start MiniInfer with Python 3.11, or check pip's index."
        )
    reason = [line.strip() for line in said.splitlines() if line.strip()] or ["it gave no reason"]
    return MiniInferError(f"pip could not install the packages: {reason[-1].removeprefix('ERROR:').strip()}")


def no_space(folder: Path) -> MiniInferError:
    return MiniInferError(
        f"The disk of {folder} (or of the folder for temporary files) is full; free some space and start again."
    )
