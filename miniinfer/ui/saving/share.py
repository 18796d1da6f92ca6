"""How much of one session may be saved, where whoever hosts the app sets a limit. What is beyond it goes on unsaved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from miniinfer.errors import MiniInferError

if TYPE_CHECKING:
    from miniinfer.ui.sessions.session import Session


class SavedShare:
    """Knows the runs that were made when the session had saved as much as it may."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._unsaved: set[str] = set()

    def __contains__(self, run_id: object) -> bool:
        """Whether this run is beyond the share, so never saved."""
        return run_id in self._unsaved

    def made(self, run_id: str) -> None:
        """A new run: beyond the share if that is used up already."""
        keeper, most = self._session.keeper, self._session.host.hosting.max_saved_bytes
        store = keeper.saved.store if keeper.saved is not None and most is not None else None
        try:
            if store is not None and most is not None and store.session_bytes(keeper.token) >= most:
                self._unsaved.add(run_id)
        except MiniInferError:
            pass  # the file cannot be read: the writer says so

    def forget(self, run_id: str) -> None:
        self._unsaved.discard(run_id)

    @property
    def problem(self) -> str | None:
        """A sentence about the run in view, if it is beyond the share."""
        current = self._session.timeline.current
        if current is None or current.info.run_id not in self._unsaved:
            return None
        most = self._session.host.hosting.max_saved_bytes or 0
        return (
            f"This run is not saved: the saved runs of this tab have reached the {most / 2**20:,.0f} MB that each may "
            "have here. Delete some on the page Runs, for good, and start it again."
        )
