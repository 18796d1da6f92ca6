"""From the sources beside this file to a library for this machine: once, in the background, kept in the data folder.

The folder's name is a hash of the sources, the compiler, its options and the processor, so a change of any of them
builds anew. A finished library is renamed into place and its checksum lies beside it: what is torn is built again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from miniinfer.models.lock import locked
from miniinfer.models.paths import data_home
from miniinfer.models.processor import processor
from miniinfer.native.library import Library, NativeError

HERE = Path(__file__).parent
SOURCES = (
    "core.cpp", "attention.cpp", "prefill.cpp", "step.cpp",
    "core.h", "cache.h", "numbers.h", "products.h", "many.h", "threads.h", "vectors.h",
)  # fmt: skip
COMPILERS = ("g++", "clang++", "c++")
OPTIONS = ("-std=c++17", "-O3", "-shared", "-fPIC", "-pthread", "-w")
SECONDS = 300  # after which a compiler is given up


def find_compiler() -> str:
    """The path of a C++ compiler: what CXX names, or the first of COMPILERS. Raises NativeError."""
    if sys.platform == "win32":
        raise NativeError("The compiled core is not built on Windows: the torch program computes everything.")
    chosen = os.environ.get("CXX")
    for name in (chosen,) if chosen else COMPILERS:
        found = shutil.which(name)
        if found:
            return found
    wanted = f"CXX names {chosen}, which is not there" if chosen else "there is no C++ compiler"
    raise NativeError(f"The compiled core was not built, for {wanted}: install g++ or clang++, or go on with torch.")


def options() -> tuple[str, ...]:
    """For this processor: a library is never carried to another machine."""
    native = "-mcpu=native" if platform.machine().lower() in ("arm64", "aarch64") else "-march=native"
    return (*OPTIONS, native)


def library_path(compiler: str) -> Path:
    """Where the library for these sources, this compiler and this processor lies, or would lie."""
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update((HERE / name).read_bytes())
    version = _run([compiler, "--version"])
    for part in (compiler, version, *options(), sys.platform, processor()):
        digest.update(part.encode() + b"\0")
    return data_home() / "native" / digest.hexdigest()[:16] / "core.so"


def known_library() -> Library | None:
    """The library if it was built before. Raises NativeError."""
    path = library_path(find_compiler())
    return Library(path) if _is_whole(path) else None


def built_library() -> Library:
    """The library, built now if it is not there, which takes seconds. Raises NativeError."""
    compiler = find_compiler()
    path = library_path(compiler)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.with_name("lock"), lambda: None):
            if not _is_whole(path):
                _compile(compiler, path)
    except OSError as error:
        raise NativeError(f"The compiled core could not be kept in {path.parent}: {error}.") from error
    return Library(path)


def _compile(compiler: str, path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        fresh = Path(folder) / path.name
        _run([compiler, *options(), *(str(HERE / name) for name in SOURCES if name.endswith(".cpp")), "-o", str(fresh)])
        checksum = Path(folder) / "checksum"
        checksum.write_text(_checksum(fresh), encoding="ascii")
        os.replace(checksum, _checksum_file(path))  # first: a library without its checksum is built again
        os.replace(fresh, path)


def _is_whole(path: Path) -> bool:
    """True if the library is what the compiler has written, to the last byte: a torn one can end the process."""
    try:
        return _checksum_file(path).read_text(encoding="ascii") == _checksum(path)
    except (OSError, ValueError):
        return False


def _checksum_file(path: Path) -> Path:
    return path.with_suffix(".sha256")


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _run(command: list[str]) -> str:
    """What the compiler prints. Raises NativeError with the first line of its complaint."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, errors="replace")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NativeError(f"The compiler {command[0]} did not run: {error}.") from error
    if done.returncode:
        complaint = next((line for line in done.stderr.splitlines() if line.strip()), f"status {done.returncode}")
        raise NativeError(f"The compiler {command[0]} failed: {complaint.strip()}")
    return done.stdout


class BackgroundBuild:
    """Builds and loads the library in a thread of its own, once in a process. `library` is None until it is there."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.library: Library | None = None  # as soon as it is there
        self.failure: str | None = None  # why there will be none, in a sentence

    def look(self) -> None:
        """Take the library if an earlier process has built it. Compiles nothing."""
        if self.library is None:
            with contextlib.suppress(NativeError):  # who wants it built hears of it
                self.library = known_library()

    def start(self) -> None:
        """Begin, if nobody has and there is none; returns at once."""
        with self._lock:
            if self._thread is None and self.library is None:
                self._thread = threading.Thread(target=self._build, name="native-build", daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Until it is there or has failed."""
        self.start()
        if self._thread is not None:
            self._thread.join()

    def _build(self) -> None:
        try:
            self.library = built_library()
        except NativeError as error:
            self.failure = str(error)
        except Exception as error:  # a background thread has nobody who would catch it
            self.failure = f"The compiled core could not be built ({type(error).__name__}: {error})."
