"""A lock between processes that the system releases when its holder dies. Standard library only."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

POLL_SECONDS = 0.2

if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: IO[bytes]) -> bool:
        file.seek(0)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(file: IO[bytes]) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)

    def _remove(path: Path) -> None:
        """An open file cannot be removed here."""

else:
    import fcntl

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)

    def _remove(path: Path) -> None:
        with suppress(OSError):
            path.unlink()


@contextmanager
def locked(path: Path, waiting: Callable[[], None], *, keep: bool = True) -> Iterator[None]:
    """Hold the lock at `path`. `waiting` is called while somebody else holds it.

    keep: the file stays behind, empty; else it goes with the lock, where the system lets an open file be removed. Two
    threads of one process exclude each other too. Raises OSError if the file cannot be opened.
    """
    file = _hold(path, waiting)
    try:
        yield
    finally:
        if not keep:
            _remove(path)  # while it is held: whoever opened it meanwhile sees that it is no longer there
        with file:
            _unlock(file)


def _hold(path: Path, waiting: Callable[[], None]) -> IO[bytes]:
    """The file at `path`, locked: that of another holder may have been removed while its lock was waited for."""
    while True:
        file = open(path, "ab")  # noqa: SIM115 - whoever holds it closes it
        try:
            while not _try_lock(file):
                waiting()
                time.sleep(POLL_SECONDS)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    return file
        except BaseException:
            file.close()
            raise
        file.close()
