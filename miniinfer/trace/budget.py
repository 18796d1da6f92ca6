"""The byte budget of a session's records: when it is full, the oldest kept queries go first, and the record says so."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable

from miniinfer.trace.records import ByteArray, FloatArray, StepRecord


class TraceBudget:
    """Counts the bytes of all records that runs of one session hold. What several hold counts once: a record that a
    branch shares with its trunk, and the arrays of the step at which it branched, whose record differs in its token."""

    def __init__(self, limit_bytes: int = 256 * 2**20) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._records: OrderedDict[int, StepRecord] = OrderedDict()
        self._runs: Counter[int] = Counter()  # by id of a record: how many runs hold it
        self._holders: Counter[int] = Counter()  # by id of an array: how many records hold it

    def add(self, record: StepRecord) -> None:
        """A new record: kept queries of the oldest ones are dropped until it fits."""
        self._hold(record)
        if self.used_bytes <= self.limit_bytes:
            return  # the list is as long as the runs
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
            self._runs[key] -= 1
            if self._runs[key] == 0:
                del self._runs[key], self._records[key]
                for array in _arrays(record):
                    self._let_go(array)

    def charge(self, nbytes: int) -> bool:
        """Bytes of records that are not steps of a run (of a batch; below 0: they went). Kept queries make room first;
        False, and nothing is charged, if that is not enough."""
        for old in list(self._records.values()):
            if self.used_bytes + nbytes <= self.limit_bytes:
                break
            self._drop_queries(old)
        if nbytes > 0 and self.used_bytes + nbytes > self.limit_bytes:
            return False
        self.used_bytes += nbytes
        return True

    def _hold(self, record: StepRecord) -> None:
        key = id(record)
        if key not in self._records:
            self._records[key] = record
            for array in _arrays(record):
                self._holders[id(array)] += 1
                if self._holders[id(array)] == 1:
                    self.used_bytes += array.nbytes
        self._runs[key] += 1

    def _let_go(self, array: FloatArray | ByteArray) -> None:
        self._holders[id(array)] -= 1
        if self._holders[id(array)] == 0:
            self.used_bytes -= array.nbytes
            del self._holders[id(array)]

    def _drop_queries(self, record: StepRecord) -> None:
        dropped = {id(part.q) for part in record.sequences if part.q is not None}
        for holder in self._records.values():
            for part in holder.sequences:
                if part.q is not None and id(part.q) in dropped:
                    self._let_go(part.q)
                    # The one change a frozen record ever sees: its largest array goes, and `q is None` says so.
                    object.__setattr__(part, "q", None)


def _arrays(record: StepRecord) -> list[FloatArray | ByteArray]:
    return [array for part in record.sequences for array in part.arrays]
