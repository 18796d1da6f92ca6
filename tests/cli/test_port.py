"""A busy port is found before anything starts, and the way out is a port that is free."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import pytest

from miniinfer.cli.main import main
from miniinfer.cli.port import any_free, claimed, require_free
from miniinfer.errors import MiniInferError
from miniinfer.models.lock import locked


@pytest.fixture
def busy() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def test_a_busy_port_is_said_with_one_that_is_free(busy: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--no-browser", "--port", str(busy)]) == 1
    shown = capsys.readouterr()
    said = rf"miniinfer: Port {busy} is already used by another program; choose another one with --port (\d+)\.\n"
    found = re.fullmatch(said, shown.err)
    assert shown.out == ""
    assert found is not None
    require_free("127.0.0.1", int(found[1]))


def test_localhost_is_the_same_machine(busy: int) -> None:
    with pytest.raises(MiniInferError, match="already used"):
        require_free("localhost", busy)


def test_any_free_one_is_free() -> None:
    require_free("127.0.0.1", any_free("127.0.0.1"))


def test_of_two_starts_at_once_the_second_is_told(tmp_path: Path) -> None:
    with claimed(8765, tmp_path / "new"):
        told = pytest.raises(MiniInferError, match="Another start of MiniInfer has just taken port 8765")
        with told, claimed(8765, tmp_path / "new"):
            pytest.fail("both have it")
        with claimed(8766, tmp_path / "new"):
            pass
    with claimed(8765, tmp_path / "new"):
        pass
    left = [path.name for path in (tmp_path / "new").iterdir()]
    assert left == [] or sys.platform == "win32", "nothing stays behind"


def test_whoever_waited_for_a_lock_that_was_removed_takes_a_new_one(tmp_path: Path) -> None:
    path, told = tmp_path / "lock", []
    with ExitStack() as first:
        first.enter_context(locked(path, lambda: pytest.fail("nobody else is there"), keep=False))

        def waiting() -> None:
            told.append(path)
            first.close()  # the file that the second one has opened goes before it is locked

        with locked(path, waiting):
            assert told == [path]
            with pytest.raises(MiniInferError), locked(path, _busy):
                pytest.fail("two hold it")


def _busy() -> NoReturn:
    raise MiniInferError("Somebody holds it.")


def test_a_folder_that_cannot_be_written_claims_nothing_and_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with claimed(8765, tmp_path / "file"), claimed(8765, tmp_path / "file"):
        pass
