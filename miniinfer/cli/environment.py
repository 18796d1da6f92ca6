"""The project's own environment, `.venv`: made, filled, repaired. Standard library only.

An installation leaves the file `miniinfer-unfinished` in the folder until it is complete, so one that was cut off is
known by it and begun anew (pip takes a half-written package for an installed one). Starts at the same time wait for
each other at a lock that the system frees when its holder dies.
"""

from __future__ import annotations

import errno
import importlib.util
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from miniinfer.cli.pip_install import no_space, refusal, run_quietly
from miniinfer.cli.requirements import Requirements
from miniinfer.errors import FetchError, MiniInferError
from miniinfer.models.lock import locked

OLDEST_PYTHON = (3, 11)
LOCK = "miniinfer.lock"
UNFINISHED = "miniinfer-unfinished"


class Environment:
    """The folder `.venv` of the project folder `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / ".venv"
        self.python = self.folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        self._unfinished = self.folder / UNFINISHED

    def version(self) -> tuple[int, int] | None:
        """Python's version in the folder; None if there is no Python that could be started."""
        try:
            settings = (self.folder / "pyvenv.cfg").read_text(encoding="utf-8")
        except OSError:
            return None
        found = re.search(r"^version(?:_info)?\s*=\s*(\d+)\.(\d+)", settings, re.MULTILINE)
        return (int(found[1]), int(found[2])) if found and self.python.exists() else None

    def site_packages(self) -> Path:
        if sys.platform == "win32":
            return self.folder / "Lib" / "site-packages"
        return self.folder / "lib" / "python{}.{}".format(*(self.version() or (0, 0))) / "site-packages"

    def unmet(self, requirements: Requirements) -> str | None:
        """What is missing, in words; None if the environment is complete."""
        if self.version() is None:
            return "there is no .venv yet"
        if self._unfinished.exists():
            return "the last installation was interrupted"
        return requirements.unmet(self.root, [self.site_packages()])

    def prepare(self, requirements: Requirements, files: Sequence[str], least_free_bytes: int) -> None:
        """Make the environment complete, if it is not. Raises MiniInferError.

        `files` are the requirements files, named from the project folder. `least_free_bytes` is what a new
        environment takes at least.
        """
        if self.unmet(requirements) is None:
            return
        try:
            self.folder.mkdir(exist_ok=True)
            with locked(self.folder / LOCK, _Once("Another start is installing; waiting for it to end.")):
                reason = self.unmet(requirements)  # the other start may have done it
                if reason is not None:
                    _tell(f"Installing into {self.folder}, once, because {reason}. This can take some minutes.")
                    self._install(requirements, files, least_free_bytes)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise no_space(self.folder) from error
            raise MiniInferError(
                f"{self.folder} cannot be written ({error.strerror}); close the programs that use it, or copy the "
                "project to a folder of your own."
            ) from error

    def _install(self, requirements: Requirements, files: Sequence[str], least_free_bytes: int) -> None:
        version = self.version()
        if version is not None and version < OLDEST_PYTHON:
            raise MiniInferError(
                f"{self.folder} holds Python {version[0]}.{version[1]}, which is too old; delete that folder and start "
                "again."
            )
        interrupted = self._unfinished.exists()
        with self._marked_unfinished() as inherited:
            if version is None or interrupted:
                self._make(least_free_bytes, inherited)
            if not (self.site_packages() / "pip").is_dir():
                self._run(["-m", "ensurepip", "--default-pip"], inherited)
            arguments = [argument for file in files for argument in ("-r", file)]
            # --no-user: a user's "user = true" would make pip refuse to install here.
            self._run(["-m", "pip", "install", "--disable-pip-version-check", "--no-user", *arguments], inherited)
        missing = self.unmet(requirements)
        if missing is not None:
            raise MiniInferError(f"pip ended well, but {missing}; delete the folder {self.folder} and start again.")

    def _make(self, least_free_bytes: int, inherited: Sequence[int]) -> None:
        for name in ("venv", "ensurepip"):
            if importlib.util.find_spec(name) is None:
                raise MiniInferError(
                    f"This Python has no module {name}; install it (Debian and Ubuntu: apt install python3-venv) and "
                    "start again."
                )
        for entry in self.folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name not in (LOCK, UNFINISHED):
                entry.unlink()
        free = shutil.disk_usage(self.folder).free
        if free < least_free_bytes:
            raise MiniInferError(
                f"The packages take at least {least_free_bytes / 1e9:.1f} GB and the disk of {self.root} has "
                f"{free / 1e9:.1f} GB free; free some space, or move the project to another disk."
            )
        # Not the Python of this very environment, which is just being made anew, but the one it was made from.
        maker = getattr(sys, "_base_executable", sys.executable)
        status, said = run_quietly([maker, "-m", "venv", str(self.folder)], self.root, inherited)
        if status:
            raise refusal(said, self.folder)

    def _run(self, arguments: Sequence[str], inherited: Sequence[int]) -> None:
        status, said = run_quietly([str(self.python), *arguments], self.root, inherited)
        if status:
            raise refusal(said, self.folder)

    @contextmanager
    def _marked_unfinished(self) -> Iterator[Sequence[int]]:
        """Keep the mark until the block ends well, or in a FetchError (nothing changed).

        Yields descriptors for the commands that install to inherit. They lock the mark: a pip whose starter was killed
        goes on, and the next start waits here until it has ended.
        """
        failure: FetchError | None = None
        with open(self._unfinished, "ab") as mark:
            if sys.platform != "win32":
                import fcntl

                fcntl.flock(mark, fcntl.LOCK_EX)
            try:
                yield [mark.fileno()]
            except FetchError as error:
                failure = error
        self._unfinished.unlink()
        if failure is not None:
            raise failure


class _Once:
    """A call that says its sentence the first time only."""

    def __init__(self, text: str) -> None:
        self.text: str | None = text

    def __call__(self) -> None:
        if self.text:
            _tell(self.text)
        self.text = None


def _tell(text: str) -> None:
    print(f"miniinfer: {text}", file=sys.stderr, flush=True)
