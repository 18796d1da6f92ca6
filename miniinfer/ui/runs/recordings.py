"""Recordings that are open somewhere, so that a reload finds them again. In memory: the reader has their file."""

from __future__ import annotations

import threading

from miniinfer.trace.files.recorded_run import RecordedRun

MOST_BYTES = 64 * 2**20  # of attention rows, in all; the oldest are let go


class Recordings:
    """By session and run id. Used from any thread."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._lock = threading.Lock()
        self._runs: dict[tuple[str, str], RecordedRun] = {}

    def keep(self, token: str, run_id: str, run: RecordedRun) -> None:
        with self._lock:
            self._runs[token, run_id] = run
            while len(self._runs) > 1 and sum(map(_bytes, self._runs.values())) > self._most:
                del self._runs[next(iter(self._runs))]

    def get(self, token: str, run_id: str | None) -> RecordedRun | None:
        with self._lock:
            return self._runs.get((token, run_id or ""))


def _bytes(run: RecordedRun) -> int:
    rows = sum(rows.nbytes for rows in run.pattern if rows is not None)
    return rows + sum(row.nbytes for row in run.head_pattern) + run.norms.nbytes
