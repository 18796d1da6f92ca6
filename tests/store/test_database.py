"""Saved runs in their file: what is committed stays, what fails is a sentence, strangers' text stays text."""

import sqlite3
import subprocess
import sys
import threading
import time

import pytest

from miniinfer.store import opening
from miniinfer.store.database import MAX_MEASUREMENT, RunStore, StoreError
from tests.store.saved import saved


@pytest.fixture
def path(tmp_path):
    return tmp_path / "home" / "runs.sqlite3"


@pytest.fixture
def store(path):
    store = RunStore(path)
    yield store
    store.close()


def test_saved_runs_are_there_when_the_file_is_opened_again(store, path):
    store.save([saved("r1"), saved("r2", parent="r1", fork_step=1)])
    store.save([saved("r1", name="renamed", cursor=1)])
    again = RunStore(path)
    assert again.load("s1", "r1") == saved("r1", name="renamed", cursor=1)
    assert [run.run_id for run in again.load_session("s1")] == ["r1", "r2"]
    assert again.load("s1", "r3") is None
    assert again.load("s2", "r1") is None
    again.close()


def test_the_list_is_newest_first_and_can_be_searched_for_any_text(store):
    for run_id, name in (("r1", "50 % off"), ("r2", "a_b"), ("r3", "'; DROP TABLE runs; --"), ("r4", "\\")):
        store.save([saved(run_id, name=name, prompt="p")])
        time.sleep(0.01)
    assert [line.run_id for line in store.lines()] == ["r4", "r3", "r2", "r1"]
    assert [line.run_id for line in store.lines(most=2)] == ["r4", "r3"]
    expected = {"%": ["r1"], "_": ["r2"], "drop table": ["r3"], "\\": ["r4"], "smol": ["r4", "r3", "r2", "r1"]}
    for search, found in expected.items():
        assert [line.run_id for line in store.lines(search)] == found, search
    line = store.lines("50 %")[0]
    assert (line.name, line.model, line.num_steps) == ("50 % off", "SmolLM2", 2)
    assert line.data_bytes == len(saved("r1", name="50 % off", prompt="p").to_json())


def test_deleting_can_be_undone_until_a_day_later(store, path, monkeypatch):
    store.save([saved("r1"), saved("r2")])
    store.delete("s1", "r1")
    assert store.load("s1", "r1") is None
    assert [line.run_id for line in store.lines()] == ["r2"]
    store.save([saved("r1", cursor=0)])
    assert store.load("s1", "r1") is None, "a late save does not bring it back"
    store.restore("s1", "r1")
    assert store.load("s1", "r1") is not None
    store.delete("s1", "r1")
    monkeypatch.setattr(time, "time", lambda: 4e9)
    RunStore(path).close()
    store.restore("s1", "r1")
    assert store.load("s1", "r1") is None


def test_all_of_a_save_or_nothing(store):
    store.save([saved("r1")])
    with pytest.raises(StoreError):
        store.save([saved("r1", name="new"), saved("r2", prompt="\ud800")])
    assert store.load("s1", "r1").name == saved().name
    assert len(store.lines()) == 1


def test_a_damaged_run_does_not_keep_others_from_coming_back(store, path):
    store.save([saved("r1"), saved("r2")])
    with sqlite3.connect(path) as other:
        other.execute("UPDATE runs SET data = substr(data, 1, 50) WHERE run_id = 'r1'")
    other.close()
    assert [run.run_id for run in store.load_session("s1")] == ["r2"]
    with pytest.raises(Exception, match="damaged"):
        store.load("s1", "r1")


def test_a_file_that_is_none_is_a_sentence(path):
    path.parent.mkdir()
    path.write_bytes(b"<!DOCTYPE html>" * 1000)
    with pytest.raises(StoreError, match="damaged: move it away"):
        RunStore(path)


def test_a_file_of_the_first_format_is_taken_over(path):
    path.parent.mkdir()
    with sqlite3.connect(path) as old:
        old.execute(
            "CREATE TABLE runs (session TEXT NOT NULL, run_id TEXT NOT NULL, name TEXT NOT NULL, prompt TEXT NOT NULL, "
            "model TEXT NOT NULL, num_steps INTEGER NOT NULL, created REAL NOT NULL, updated REAL NOT NULL, "
            "deleted REAL, data TEXT NOT NULL, PRIMARY KEY (session, run_id))"
        )
        for number in (2, 1):
            row = ("s1", f"r{number}", "n", "p", "m", 2, 1.0, float(number), None, saved(f"r{number}").to_json())
            old.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        old.execute("PRAGMA user_version=1")
    old.close()
    stores = [RunStore(path), RunStore(path)]
    assert [line.run_id for line in stores[0].lines()] == ["r2", "r1"]
    stores[1].save([saved("r1")])
    assert [line.run_id for line in stores[0].lines()] == ["r1", "r2"]
    for store in stores:
        store.close()


def test_a_newer_format_is_left_alone(store, path):
    store.save([saved()])
    store.close()
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version=9")
    other.close()
    with pytest.raises(StoreError, match="newer MiniInfer"):
        RunStore(path)


def test_a_locked_file_is_a_sentence_and_the_next_save_works(path, monkeypatch):
    monkeypatch.setattr(opening, "BUSY_SECONDS", 0.1)
    store = RunStore(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match="another program holds it"):
        store.save([saved()])
    other.execute("ROLLBACK")
    other.close()
    store.save([saved()])
    assert len(store.lines()) == 1
    store.close()


def test_a_full_disk_is_a_sentence_and_what_was_saved_stays(store):
    store.save([saved("r1")])
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(StoreError, match="the disk is full"):
        store.save([saved(f"r{i}", prompt="long " * 2000) for i in range(2, 9)])
    assert [line.run_id for line in store.lines()] == ["r1"]


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("x")
    with pytest.raises(StoreError, match=r"runs\.sqlite3"):
        RunStore(blocked / "runs.sqlite3")


def test_many_threads_and_two_stores_write_at_once(store, path):
    second = RunStore(path)
    errors = []

    def write(which, number):
        try:
            for i in range(10):
                which.save([saved(f"r{number}", cursor=i % 3)])
        except StoreError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=((store, second)[n % 2], n)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(store.lines()) == 6
    second.close()


def test_a_process_killed_in_the_middle_of_saving_leaves_whole_runs(path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom miniinfer.store.database import RunStore\n"
        "from tests.store.saved import saved\nstore = RunStore(Path(sys.argv[1]))\n"
        "for i in range(100000):\n"
        "    store.save([saved(f'r{i % 7}', prompt='long ' * 3000, name=str(i)), saved(f't{i % 7}', name=str(i))])\n"
        "    print(i, flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= 20:
            break
    process.kill()
    process.wait()
    last = [int(line), *map(int, process.stdout.read().split())][-1]
    process.stdout.close()
    store = RunStore(path)
    runs = {run.run_id: run for run in store.load_session("s1")}
    assert len(runs) == 14
    assert max(int(run.name) for run in runs.values()) >= last, "what was committed is there"
    for number in range(7):
        assert runs[f"r{number}"].name == runs[f"t{number}"].name, "the two of one save belong together"
    store.close()


def test_a_browser_lists_and_removes_its_own_runs_alone(store):
    store.save([saved("r1", "mine"), saved("r1", "yours"), saved("r1", "nobodys")])
    store.own("mine", "browser-a")
    store.own("yours", "browser-b")
    store.own("mine", "browser-b")
    assert [line.session for line in store.lines(owner="browser-a")] == ["mine"], "the first one stays the owner"
    assert {line.session for line in store.lines()} == {"mine", "yours", "nobodys"}
    assert store.lines(owner="' OR 1=1 --") == []
    store.delete("mine", "r1")
    store.delete("yours", "r1")
    assert (store.num_deleted("browser-a"), store.num_deleted()) == (1, 2)
    store.purge("browser-a")
    assert (store.num_deleted("browser-a"), store.num_deleted("browser-b")) == (0, 1)


def test_the_list_has_the_beginning_of_a_long_prompt_and_finds_its_end(store):
    store.save([saved("r1", "s", prompt="x" * 100_000 + "needle")])
    (line,) = store.lines("needle")
    assert line.prompt == "x" * 400


def test_half_a_character_is_found_nowhere(store):
    store.save([saved("r1")])
    with pytest.raises(StoreError, match="Half of a character"):
        store.lines("\ud800")
    with pytest.raises(StoreError, match="Half of a character"):
        store.load("\ud800", "r1")
    assert len(store.lines("\u202e")) == 1


def test_what_was_removed_for_good_is_in_no_file_any_more(store, path):
    """Not in a free page, not in the write-ahead log; and whose it was is forgotten with it."""
    store.save([saved("r1", "mine", prompt="needle " * 3000), saved("r1", "yours", prompt="other")])
    store.save([saved("r1", "mine", prompt="needle " * 3000, cursor=1)])
    store.own("mine", "browser-a")
    store.own("yours", "browser-b")
    assert any(b"needle" in each.read_bytes() for each in path.parent.iterdir())
    store.delete("mine", "r1")
    store.purge("browser-a")
    assert [each.name for each in path.parent.iterdir() if b"needle" in each.read_bytes()] == []
    assert (store.owner_of("mine"), store.owner_of("yours")) == (None, "browser-b")


def test_a_server_that_runs_for_days_drops_what_was_deleted_a_day_ago(store, monkeypatch):
    store.save([saved("r1"), saved("r2")])
    store.delete("s1", "r1")
    store.save([saved("r2", cursor=1)])
    assert store.num_deleted() == 1
    later = time.time() + opening.KEPT_DELETED_SECONDS + 1
    monkeypatch.setattr(opening.time, "time", lambda: later)
    store.save([saved("r2", cursor=0)])
    assert store.num_deleted() == 0


def test_measurements_stay_with_their_run_and_go_with_it(store):
    store.save([saved("r1")])
    for data in ("old", "new"):
        store.keep_measurement("s1", "r1", "curve", data)
    store.keep_measurement("s1", "r1", "times", "x" * (MAX_MEASUREMENT + 1))
    ((view, data, at),) = store.measurements("s1", "r1")
    assert (view, data) == ("curve", "new")
    assert at > 1e9
    assert store.measurements("s2", "r1") == []
    store.delete("s1", "r1")
    assert store.measurements("s1", "r1"), "it can be taken back"
    store.purge()
    assert store.measurements("s1", "r1") == []
    store.max_bytes = 0
    store.keep_measurement("s1", "r1", "curve", "beyond the limit")
    assert store.measurements("s1", "r1") == []
