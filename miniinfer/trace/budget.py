"""The byte budget of a session's records: when it is full, the oldest kept queries go first, and the record says so."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable

from miniinfer.trace.records import StepRecord


class TraceBudget:
    """Counts the bytes of all records that runs of one session hold, shared ones once."""

    def __init__(self, limit_bytes: int = 256 * 2**20) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._records: OrderedDict[int, StepRecord] = OrderedDict()
        self._holders: Counter[int] = Counter()

    def add(self, record: StepRecord) -> None:
        """A new record: kept queries of the oldest ones are dropped until it fits."""
        self._hold(record)
        for old in list(self._records.values()):
            if self.used_bytes <= self.limit_bytes:
                break
            if old is not record:
                self._drop_queries(old)

    def share(self, records: Iterable[StepRecord]) -> None:
        """A branch holds these records too."""
        for record in records:
            self._hold(record)

    def drop(self, records: Iterable[StepRecord]) -> None:
        """A run lets go of its records; those nobody holds stop counting."""
        for record in records:
            key = id(record)
            self._holders[key] -= 1
            if self._holders[key] == 0:
                self.used_bytes -= record.nbytes
                del self._holders[key], self._records[key]

    def _hold(self, record: StepRecord) -> None:
        key = id(record)
        if key not in self._records:
            self._records[key] = record
            self.used_bytes += record.nbytes
        self._holders[key] += 1

    def _drop_queries(self, record: StepRecord) -> None:
        for part in record.sequences:
            if part.q is not None:
                self.used_bytes -= part.q.nbytes
                # The one change a frozen record ever sees: its largest array goes, and `q is None` says that it went.
                object.__setattr__(part, "q", None)
