"""The runs of one session as a tree: a branch is (trunk, edit), so it explains itself and can be replayed."""

from __future__ import annotations

from collections.abc import Iterator

from miniinfer.errors import BadInputError
from miniinfer.trace.run import Run


class Timeline:
    """Runs by id in the order of their making, one of them current, with the step the user looks at."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}
        self._cursors: dict[str, int] = {}
        self._current: str | None = None
        self._count = 0

    def __iter__(self) -> Iterator[Run]:
        return iter(tuple(self._runs.values()))  # a page may be drawn while another thread adds a run

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, run_id: object) -> bool:
        return run_id in self._runs

    def new_id(self) -> str:
        """r1, r2, ...: never used again, also after a run is removed."""
        self._count += 1
        return f"r{self._count}"

    def count_on_from(self, earlier: Timeline) -> None:
        """Give no id that `earlier` gave: a browser that still knows its runs must not take ours for them."""
        self._count = max(self._count, earlier._count)

    def count_at_least(self, number: int) -> None:
        """Give no id up to this number: they are those of saved runs."""
        self._count = max(self._count, number)

    def add(self, run: Run, cursor: int = 0) -> None:
        """Add a run and make it current."""
        self._runs[run.info.run_id] = run
        self._cursors[run.info.run_id] = cursor
        self._current = run.info.run_id

    def get(self, run_id: str) -> Run:
        if run_id not in self._runs:
            raise BadInputError(f"There is no run {run_id!r} in this session; choose one from the run menu.")
        return self._runs[run_id]

    def remove(self, run_id: str) -> Run:
        """Take a run out; branches of it stay, they own what they need. Another run becomes current."""
        if self._current == run_id:
            self._current = next((other for other in reversed(self._runs) if other != run_id), None)
        self._cursors.pop(run_id)
        return self._runs.pop(run_id)

    def open(self, run_id: str) -> Run:
        """Make a run current; its cursor stands where it was left."""
        run = self.get(run_id)
        self._current = run_id
        return run

    @property
    def current(self) -> Run | None:
        return self._runs[self._current] if self._current is not None else None

    @property
    def cursor(self) -> int:
        """The step looked at, 0 (nothing computed yet) to the last."""
        return self._cursors[self._current] if self._current is not None else 0

    @cursor.setter
    def cursor(self, step: int) -> None:
        if self._current is not None:
            self._cursors[self._current] = min(max(step, 0), len(self._runs[self._current].steps))

    def cursor_of(self, run_id: str) -> int:
        return self._cursors.get(run_id, 0)

    def owner_of(self, run_id: str, step: int) -> Run:
        """The run that this step is a part of: what a branch has from before it left, it shares with its trunk."""
        run = self.get(run_id)
        while (edit := run.info.edit) is not None and step < edit.step and (run.info.parent or "") in self._runs:
            run = self._runs[run.info.parent or ""]
        return run

    def path_to(self, run_id: str) -> list[Run]:
        """From the root to this run."""
        path = [self.get(run_id)]
        while (parent := path[0].info.parent) is not None and parent in self._runs:
            path.insert(0, self._runs[parent])
        return path
