"""Opening the file of saved runs: made or brought up to date where that can be written, else read as it is."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from miniinfer.store.faults import StoreError, not_writable, store_error

KEPT_DELETED_SECONDS = 24 * 3600
KEPT_BATCH_SECONDS = 7 * 24 * 3600
BUSY_SECONDS = 5.0
SCHEMA_VERSION = 2  # 2: `turn`, the order of saving, which no clock that is set back can change
SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    session TEXT NOT NULL, run_id TEXT NOT NULL, name TEXT NOT NULL, prompt TEXT NOT NULL, model TEXT NOT NULL,
    num_steps INTEGER NOT NULL, created REAL NOT NULL, updated REAL NOT NULL, deleted REAL, data TEXT NOT NULL,
    turn INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (session, run_id)
);
CREATE TABLE IF NOT EXISTS owners (session TEXT PRIMARY KEY, owner TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS batches (session TEXT PRIMARY KEY, updated REAL NOT NULL, data TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS measurements (
    session TEXT NOT NULL, run_id TEXT NOT NULL, view TEXT NOT NULL, updated REAL NOT NULL, data TEXT NOT NULL,
    PRIMARY KEY (session, run_id, view)
);
"""
ORPHANS = (
    "DELETE FROM measurements WHERE NOT EXISTS "
    "(SELECT 1 FROM runs WHERE runs.session = measurements.session AND runs.run_id = measurements.run_id)"
)
# Whose a session was, when nothing of it is left.
NOBODYS = "DELETE FROM owners WHERE session NOT IN (SELECT session FROM runs UNION SELECT session FROM batches)"


def open_file(path: Path, name: str) -> tuple[sqlite3.Connection, bool]:
    """A connection for any thread, and whether it is for reading alone. name: what a sentence calls the file. Raises
    StoreError, one sentence."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        db = _connect(str(path))
        _prepare(db, name)
    except (OSError, sqlite3.Error) as error:
        reading = _for_reading(path) if not_writable(error) else None
        if reading is None:
            raise store_error(name, error) from error
        return reading, True
    return db, False


def _connect(name: str, uri: bool = False) -> sqlite3.Connection:
    return sqlite3.connect(name, BUSY_SECONDS, check_same_thread=False, isolation_level=None, uri=uri)


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _for_reading(path: Path) -> sqlite3.Connection | None:
    """Without the files that SQLite keeps beside it. None if there is nothing to read, or a crash has left a log that
    has to be worked into it first."""
    log = path.with_name(f"{path.name}-wal")
    try:
        if log.exists() and log.stat().st_size:
            return None
        db = _connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)
        return db if _version(db) == SCHEMA_VERSION else None
    except (OSError, sqlite3.Error):
        return None


def _prepare(db: sqlite3.Connection, name: str) -> None:
    version = _version(db)
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{name} were written by a newer MiniInfer (version {version} of its format): use that one, or "
            "set MINIINFER_HOME to another folder."
        )
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute("PRAGMA secure_delete=ON")  # what was deleted for good is zeros, not free pages with a prompt
    try:
        _bring_up_to_date(db, version)
    except sqlite3.Error as error:
        if db.in_transaction:
            db.execute("ROLLBACK")
        if version < SCHEMA_VERSION or "malformed" in str(error):
            raise  # else it can be read as it is: a disk that is full keeps no run from coming back


def _bring_up_to_date(db: sqlite3.Connection, version: int) -> None:
    db.executescript(SCHEMA)
    if version < SCHEMA_VERSION:
        db.execute("BEGIN IMMEDIATE")  # of two processes that open an old file, one changes it
        if "turn" not in (column[1] for column in db.execute("PRAGMA table_info(runs)")):
            db.execute("ALTER TABLE runs ADD COLUMN turn INTEGER NOT NULL DEFAULT 0")
        db.execute("CREATE INDEX IF NOT EXISTS by_turn ON runs (turn)")
        db.execute("COMMIT")
        db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    db.execute("CREATE INDEX IF NOT EXISTS by_deleted ON runs (deleted) WHERE deleted IS NOT NULL")
    drop_old(db, time.time())
    for left_over in (ORPHANS, NOBODYS):
        db.execute(left_over)


def drop_old(db: sqlite3.Connection, now: float) -> None:
    """What was deleted a day ago, and batches that nobody has touched for a week."""
    db.execute("DELETE FROM runs WHERE deleted < ?", (now - KEPT_DELETED_SECONDS,))
    db.execute("DELETE FROM batches WHERE updated < ?", (now - KEPT_BATCH_SECONDS,))
