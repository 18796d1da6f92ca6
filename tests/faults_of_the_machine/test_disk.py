"""The disk is full, read-only, locked or pulled away: a sentence, nothing saved is lost, and what could not be saved is
saved as soon as it can be, whether or not anything changes again."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from miniinfer.store import opening
from miniinfer.ui.saving import saved_runs as saved_runs_module
from miniinfer.ui.saving.saved_runs import SavedRuns
from tests.faults_of_the_machine.permissions import read_only
from tests.store.saved import saved

# In a process of its own: a full file system of its own where a namespace lets one be made, else a limit on files.
FULL_DISK = """
import json, resource, subprocess, sys
from pathlib import Path
from miniinfer.store.database import RunStore
from miniinfer.store.writer import RunWriter
from tests.store.saved import saved

folder, limited = Path(sys.argv[1]), sys.argv[2] == "limit"
if not limited:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(folder)], check=True)
store = RunStore(folder / "runs.sqlite3")
home = RunWriter(store.save)
home.changed("r1", lambda: saved("r1"))
home.flush()
said = [home.problem]
filler = folder / "filler"
if limited:
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
else:
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            assert error.errno == 28
home.changed("r1", lambda: saved("r1", name="newest", prompt="x" * 60_000))
home.flush()
said.append(home.problem)
kept = [run.name for run in store.load_session("s1")]
reopened = [run.name for run in RunStore(folder / "runs.sqlite3").load_session("s1")]
if limited:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
else:
    filler.unlink()
home.flush()
said.append(home.problem)
print(json.dumps([said, kept, [run.name for run in store.load_session("s1")], reopened]))
home.close()
"""
NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SavedRuns]:
    monkeypatch.setattr(saved_runs_module, "TRY_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(opening, "BUSY_SECONDS", 0.05)
    (tmp_path / "home").mkdir()
    home = SavedRuns(lambda: tmp_path / "home" / "runs.sqlite3")
    yield home
    home.close()


def save(home: SavedRuns, run_id: str = "r1", **changes: object) -> str:
    """What is said of it."""
    home.changed(run_id, lambda: saved(run_id, **changes))
    home.flush()
    return home.problem or ""


def names(home: SavedRuns) -> list[str]:
    assert home.store is not None
    return [run.name for run in home.store.load_session("s1")]


def ways() -> list[str]:
    try:
        own = subprocess.run([*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/tmp"], capture_output=True, timeout=60)
    except OSError:
        return ["limit"]
    return ["limit"] if own.returncode else ["limit", "file system"]


def test_a_full_disk(tmp_path: Path) -> None:
    for way in ways():
        folder = tmp_path / way
        folder.mkdir()
        prefix = [] if way == "limit" else NAMESPACE
        found = subprocess.run(
            [*prefix, sys.executable, "-c", FULL_DISK, str(folder), way], capture_output=True, text=True, timeout=120
        )
        assert found.returncode == 0, found.stderr
        said, kept, after, reopened = json.loads(found.stdout)
        assert reopened == kept, "and comes back from there after a restart"
        assert said[0] is None
        assert ("the disk is full: free some space" if way != "limit" else "the disk is full or failing") in said[1]
        assert said[1].endswith("What is on screen goes on, but is not saved until then.")
        assert kept == [saved().name], "what was committed is there while the disk is full"
        assert said[2] is None
        assert after == ["newest"]


def test_a_read_only_folder(home: SavedRuns, tmp_path: Path) -> None:
    with read_only(tmp_path / "home"):
        said = save(home)
        assert "make its folder writable, or set MINIINFER_HOME" in said
        assert home.store is None
    home.flush()
    assert home.problem is None
    assert names(home) == [saved().name], "saved although nothing has changed since"
    home.close()


def test_what_was_saved_in_a_folder_that_is_read_only_now_can_be_looked_at(home: SavedRuns, tmp_path: Path) -> None:
    assert save(home) == ""
    home.close()
    again = SavedRuns(lambda: tmp_path / "home" / "runs.sqlite3")
    with read_only(tmp_path / "home"):
        assert names(again) == [saved().name]
        assert "make its folder writable" in save(again, name="newer")
        assert names(again) == [saved().name]
    again.flush()
    assert (again.problem, names(again)) == (None, ["newer"]), "written as soon as it may be"
    again.close()


def test_a_folder_that_becomes_read_only(home: SavedRuns, tmp_path: Path) -> None:
    assert save(home) == ""
    with read_only(tmp_path / "home"):
        assert save(home, name="open already") == ""
        assert names(home) == ["open already"]


def test_a_locked_database(home: SavedRuns, tmp_path: Path) -> None:
    assert save(home) == ""
    other = sqlite3.connect(tmp_path / "home" / "runs.sqlite3", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert "another program holds it" in save(home, name="second")
    assert names(home) == [saved().name], "looking at what is there needs no lock"
    other.execute("ROLLBACK")
    other.close()
    home.flush()
    assert (home.problem, names(home)) == (None, ["second"])


def test_a_file_that_is_locked_from_the_start(home: SavedRuns, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "home" / "runs.sqlite3", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    assert "another program holds it" in save(home)
    other.execute("ROLLBACK")
    other.close()
    home.flush()
    assert (home.problem, names(home)) == (None, [saved().name])


def test_a_file_that_is_deleted_while_it_is_used(home: SavedRuns, tmp_path: Path) -> None:
    assert save(home) == ""
    for file in (tmp_path / "home").iterdir():
        file.unlink()
    assert save(home, "r2", name="later") == ""
    again = SavedRuns(lambda: tmp_path / "home" / "runs.sqlite3")
    assert names(again) == ["later"], "in the file that is there, not in the one that is gone"
    again.close()


def test_a_clock_that_is_set_back(home: SavedRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 2_000_000_000.0
    for number in range(4):
        monkeypatch.setattr(time, "time", lambda number=number: now - 100_000 * number)
        assert save(home, f"r{number}", created=now - 100_000 * number) == ""
    assert home.store is not None
    assert [line.run_id for line in home.store.lines()] == ["r3", "r2", "r1", "r0"], "the newest is first"
    assert [run.run_id for run in home.store.load_session("s1")] == ["r0", "r1", "r2", "r3"]
    home.store.delete("s1", "r0")
    monkeypatch.setattr(time, "time", lambda: now - 1e9)
    home.close()
    again = SavedRuns(lambda: home.store.path)  # type: ignore[union-attr]
    assert again.store is not None
    again.store.restore("s1", "r0")
    assert len(names(again)) == 4, "what was deleted in what is now the future can still come back"
    again.close()
