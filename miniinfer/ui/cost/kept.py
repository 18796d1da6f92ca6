"""Measurements that are kept with the run they were made beside: a reload, or another server, finds them again."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from miniinfer.errors import MiniInferError
from miniinfer.measure.plain import KINDS, from_text, to_text

if TYPE_CHECKING:
    from miniinfer.ui.sessions.session import Session


class Kept(NamedTuple):
    """A result of an earlier visit, and when it was measured."""

    result: Any
    at: datetime

    @property
    def told(self) -> str:
        return f"Measured on {self.at:%Y-%m-%d at %H:%M}, before this page was loaded, and kept with the run."


def keep(session: Session, view: str, run_id: str, result: Any) -> None:
    """Saved with the run, which is worth saving now. What cannot be saved is said by whoever saves the run."""
    saved, run = session.keeper.saved, session.timeline.get(run_id) if run_id in session.timeline else None
    if view not in KINDS or saved is None or run is None:
        return
    with session.lock:
        session.keeper.changed(run)
    if run_id not in session.keeper.share and (store := saved.store) is not None:
        with suppress(MiniInferError):
            store.keep_measurement(session.keeper.token, run_id, view, to_text(result))


def kept_of(session: Session, run_id: str) -> dict[str, Kept]:
    """By view. One that is damaged is left out: it can be measured again."""
    saved, found = session.keeper.saved, {}
    store = saved.store if saved is not None and saved.begun else None
    with suppress(MiniInferError):
        for view, text, at in store.measurements(session.keeper.token, run_id) if store is not None else ():
            with suppress(MiniInferError):
                found[view] = Kept(from_text(view, text), datetime.fromtimestamp(at))
    return found
