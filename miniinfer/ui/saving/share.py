"""Runs of a session that go on unsaved: beyond what one session may save, or deleted in another tab meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from miniinfer.errors import MiniInferError

if TYPE_CHECKING:
    from miniinfer.ui.sessions.session import Session

DELETED = "This run was deleted in another tab: it goes on here, but is not saved. The page Runs there takes that back."


class SavedShare:
    """Knows the runs that were made when the session had saved as much as it may, and those that were deleted."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._beyond: set[str] = set()
        self._deleted: set[str] = set()

    def __contains__(self, run_id: object) -> bool:
        """Whether this run is not saved."""
        return run_id in self._beyond or run_id in self._deleted

    def made(self, run_id: str) -> None:
        """A new run: beyond the share if that is used up already."""
        keeper, most = self._session.keeper, self._session.host.hosting.max_saved_bytes
        store = keeper.saved.store if keeper.saved is not None and most is not None else None
        try:
            if store is not None and most is not None and store.session_bytes(keeper.token) >= most:
                self._beyond.add(run_id)
        except MiniInferError:
            pass  # the file cannot be read: the writer says so

    def deleted(self, run_id: str) -> None:
        """By somebody else, while it is open here."""
        self._deleted.add(run_id)

    def restored(self, run_id: str) -> None:
        """Somebody took that back: what came to it meanwhile is saved."""
        self._deleted.discard(run_id)
        timeline = self._session.timeline
        if run_id in timeline:
            self._session.keeper.changed(timeline.get(run_id))

    def forget(self, run_id: str) -> None:
        self._beyond.discard(run_id)
        self._deleted.discard(run_id)

    @property
    def problem(self) -> str | None:
        """A sentence about the run in view, if it is not saved."""
        current = self._session.timeline.current
        if current is None or current.info.run_id not in self:
            return None
        if current.info.run_id in self._deleted:
            return DELETED
        most = self._session.host.hosting.max_saved_bytes or 0
        return (
            f"This run is not saved: the saved runs of this tab have reached the {most / 2**20:,.0f} MB that each may "
            "have here. Delete some on the page Runs, for good, and start it again."
        )
