"""The SQLite file of saved runs, and of each session's batch: write-ahead log, used from any thread through one
connection and a lock.

A crash in the middle of a write leaves the last whole state. Deleting only marks a run, so that it can be undone; a day
later it is dropped for good. A batch is kept for a week after it changed. What is dropped is overwritten.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from miniinfer.errors import BadInputError
from miniinfer.store.faults import RunRefusedError, StoreError, store_error
from miniinfer.store.opening import NOBODYS, ORPHANS, drop_old, open_file
from miniinfer.store.saved_batch import SavedBatch
from miniinfer.store.saved_run import SavedRun

MAX_BYTES = 500 * 2**20  # of the file; nothing is dropped to stay below it, new runs are refused with a sentence
MAX_MEASUREMENT = 2**20  # characters of one
LINE_LETTERS = 400  # of a prompt in the list
# owner None: everybody's, as on a server for one person.
OWNED = "(?{n} IS NULL OR session IN (SELECT session FROM owners WHERE owner = ?{n}))"


@dataclass(frozen=True)
class RunLine:
    """A line of the list of saved runs; prompt: its beginning. Times in seconds since 1970; data_bytes: of its JSON."""

    session: str
    run_id: str
    name: str
    prompt: str
    model: str
    num_steps: int
    created: float
    updated: float
    data_bytes: int


class RunStore:
    """Saved runs in one file. Every method raises StoreError, one sentence, if the file cannot be used."""

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES, *, hidden: bool = False) -> None:
        """hidden: sentences do not say where the file lies, for strangers read them."""
        self.path = path
        self._name = "The saved runs of this server" if hidden else f"Saved runs ({path})"
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._db, self.read_only = open_file(path, self._name)
        self._file = os.stat(path).st_ino

    @property
    def gone(self) -> bool:
        """Somebody has deleted or moved the file: what is written now would be in no file that anybody opens again."""
        try:
            return os.stat(self.path).st_ino != self._file
        except FileNotFoundError:
            return True
        except OSError:
            return False  # it cannot be looked at; writing says why

    def save(self, saved: Iterable[SavedRun | SavedBatch]) -> None:
        """Write these, all of them or none; what is there already is replaced, a deleted run stays so.

        A file that has reached its limit takes nothing new; what is in it goes on.
        """
        now, rows, batches = time.time(), [], []
        for one in saved:
            if isinstance(one, SavedBatch):
                batches.append((one.session, now, one.to_json()))
            else:
                facts = one.session, one.run_id, one.name, one.prompt, one.model.name, len(one.steps), one.created
                rows.append((*facts, now, one.to_json()))
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                if self._used() >= self.max_bytes:
                    self._refuse_new(rows, batches)
                self._db.executemany(
                    "INSERT INTO runs (session, run_id, name, prompt, model, num_steps, created, updated, data, turn) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, (SELECT coalesce(max(turn), 0) + 1 FROM runs)) "
                    "ON CONFLICT (session, run_id) DO UPDATE SET name = excluded.name, num_steps = excluded.num_steps, "
                    "updated = excluded.updated, data = excluded.data, turn = excluded.turn",
                    rows,
                )
                drop_old(self._db, now)
                self._db.executemany("REPLACE INTO batches (session, updated, data) VALUES (?, ?, ?)", batches)
                self._db.execute("COMMIT")
            except (sqlite3.Error, UnicodeError, StoreError) as error:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise store_error(self._name, error) from error

    def _refuse_new(self, rows: list[tuple[Any, ...]], batches: list[tuple[Any, ...]]) -> None:
        known = [("SELECT 1 FROM runs WHERE session = ? AND run_id = ?", row[:2]) for row in rows]
        known += [("SELECT 1 FROM batches WHERE session = ?", batch[:1]) for batch in batches]
        if any(self._db.execute(*question).fetchone() is None for question in known):
            raise RunRefusedError(
                f"Saved runs take {self._used() / 2**20:,.0f} MB, and {self.max_bytes / 2**20:,.0f} MB is the limit: "
                "delete some on the page Runs, for good. What is on screen goes on, but new runs are not saved."
            )

    def _used(self) -> int:
        """Bytes of the file that hold something. Called with the lock held."""
        pages, free, size = (
            int(self._db.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size

    def load(self, session: str, run_id: str) -> SavedRun | None:
        """None if there is no such run, or it was deleted. Raises BadInputError if what is there is damaged."""
        rows = self._read("SELECT data FROM runs WHERE session = ? AND run_id = ? AND deleted IS NULL", session, run_id)
        return SavedRun.from_json(str(rows[0][0])) if rows else None

    def load_session(self, session: str) -> list[SavedRun]:
        """All runs of a session that can be read, in the order of their making."""
        rows = self._read(
            "SELECT data FROM runs WHERE session = ? AND deleted IS NULL ORDER BY rowid", session
        )
        found = []
        for (data,) in rows:
            try:
                found.append(SavedRun.from_json(str(data)))
            except BadInputError:
                continue  # one damaged run must not keep the others from coming back; the list still names it
        return found

    def load_batch(self, session: str) -> SavedBatch | None:
        """None if there is none. Raises BadInputError if what is there is damaged."""
        rows = self._read("SELECT data FROM batches WHERE session = ?", session)
        return SavedBatch.from_json(str(rows[0][0])) if rows else None

    def own(self, session: str, owner: str) -> None:
        """The runs of this session belong to this browser, unless they are somebody else's already."""
        self._write("INSERT OR IGNORE INTO owners (session, owner) VALUES (?, ?)", session, owner)

    def lines(self, search: str = "", most: int = 200, owner: str | None = None) -> list[RunLine]:
        """Saved runs, the newest first; with `search`, those whose name, prompt or model contain it; with `owner`, the
        runs of that browser alone."""
        pattern = "%" + search.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        rows = self._read(
            f"SELECT session, run_id, name, substr(prompt, 1, {LINE_LETTERS}), model, num_steps, created, updated, "
            "length(data) FROM runs WHERE deleted IS NULL AND (name LIKE ?1 ESCAPE '\\' OR prompt LIKE ?1 ESCAPE '\\' "
            f"OR model LIKE ?1 ESCAPE '\\') AND {OWNED.format(n=3)} ORDER BY turn DESC, updated DESC LIMIT ?2",
            pattern, most, owner,
        )
        return [RunLine(*row) for row in rows]

    def delete(self, session: str, run_id: str) -> None:
        """Mark as deleted; `restore` takes it back for a day."""
        self._write("UPDATE runs SET deleted = ? WHERE session = ? AND run_id = ?", time.time(), session, run_id)

    def restore(self, session: str, run_id: str) -> None:
        self._write("UPDATE runs SET deleted = NULL WHERE session = ? AND run_id = ?", session, run_id)

    def owner_of(self, session: str) -> str | None:
        """The browser that the runs of this session belong to, if that is known."""
        rows = self._read("SELECT owner FROM owners WHERE session = ?", session)
        return str(rows[0][0]) if rows else None

    def purge(self, owner: str | None = None) -> None:
        """Drop deleted runs for good, now, and whose they were; the write-ahead log forgets them too. The sessions that
        are open say again whose they are (`own`) when something of theirs is saved next."""
        self._write(f"DELETE FROM runs WHERE deleted IS NOT NULL AND {OWNED.format(n=1)}", owner)
        self._write(ORPHANS)
        self._write(NOBODYS)
        self._write("PRAGMA wal_checkpoint(TRUNCATE)")

    def keep_measurement(self, session: str, run_id: str, view: str, data: str) -> None:
        """What was measured beside a run, in place of what was measured before. Nothing in a file at its limit."""
        if len(data) <= MAX_MEASUREMENT and self.total_bytes() < self.max_bytes:
            sql = "REPLACE INTO measurements (session, run_id, view, updated, data) VALUES (?, ?, ?, ?, ?)"
            self._write(sql, session, run_id, view, time.time(), data)

    def measurements(self, session: str, run_id: str) -> list[tuple[str, str, float]]:
        """View, data and time of each."""
        sql = "SELECT view, data, updated FROM measurements WHERE session = ? AND run_id = ?"
        return [(str(view), str(data), float(at)) for view, data, at in self._read(sql, session, run_id)]

    def num_deleted(self, owner: str | None = None) -> int:
        found = self._read(f"SELECT count(*) FROM runs WHERE deleted IS NOT NULL AND {OWNED.format(n=1)}", owner)
        return int(found[0][0])

    def run_ids(self, session: str) -> list[str]:
        """Of all runs of a session, deleted ones included: ids that must not be given again."""
        return [str(row[0]) for row in self._read("SELECT run_id FROM runs WHERE session = ?", session)]

    def session_bytes(self, session: str) -> int:
        """Of one session's runs, deleted ones included, for they can come back."""
        rows = self._read("SELECT coalesce(sum(length(data)), 0) FROM runs WHERE session = ?", session)
        return int(rows[0][0])

    def total_bytes(self) -> int:
        """Of the file as far as it holds something, deleted runs included."""
        with self._lock:
            try:
                return self._used()
            except sqlite3.Error as error:
                raise store_error(self._name, error) from error

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _read(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._db.execute(sql, values).fetchall()
            except UnicodeError as error:
                raise StoreError("Half of a character is in no saved run: type another text.") from error
            except sqlite3.Error as error:
                raise store_error(self._name, error) from error

    def _write(self, sql: str, *values: object) -> None:
        with self._lock:
            try:
                self._db.execute(sql, values)
            except (sqlite3.Error, UnicodeError) as error:
                raise store_error(self._name, error) from error


__all__ = ["MAX_BYTES", "RunLine", "RunRefusedError", "RunStore", "StoreError"]
