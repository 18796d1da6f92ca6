"""What of a session's batch outlives its tab: what was typed, and how far the batch had come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from miniinfer.config import SamplingParams
from miniinfer.errors import BadInputError, MiniInferError
from miniinfer.store.saved_batch import SavedBatch, SavedProgress, SavedSet
from miniinfer.trace.batch.settings import BatchRequest, BatchSettings

if TYPE_CHECKING:
    from miniinfer.engine.weights import ModelLike
    from miniinfer.trace.batch.run import BatchRun
    from miniinfer.ui.batching.host import SessionBatch
    from miniinfer.ui.sessions.session import Session


class BatchKeeper:
    """`returning` is what the session's address brought back, until the page takes it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.returning: SavedBatch | None = None
        self._typed: tuple[SavedSet, tuple[SavedSet, ...]] | None = None
        self._kept = False  # a preset that nobody has touched is not worth it

    def typed(self, form: SavedSet, sets: tuple[SavedSet, ...], *, own: bool) -> None:
        """What stands in the editor now, and the sets that have a name of their own. own: it is no mere preset."""
        self._kept = self._kept or own
        if (form, sets) != self._typed:
            self._typed = form, sets
            self.changed()

    def changed(self) -> None:
        """Have it saved as it will stand a moment later."""
        keeper, session = self._session.keeper, self._session
        self._kept = self._kept or bool(session.batch.run and session.batch.run.steps)
        if keeper.saved is None or self._typed is None or not self._kept:
            return
        token = keeper.token
        keeper.saved.own(token, keeper.browser)

        def snapshot() -> SavedBatch | None:
            if keeper.saved is None or keeper.token != token or not keeper.saved.owns(token, session):
                return None  # the address went to another session meanwhile: what it has is newer
            return self.as_it_stands()

        keeper.saved.changed((session.session_id, "batch"), snapshot)

    def as_it_stands(self) -> SavedBatch | None:
        batch = self._session.batch
        run = batch.run
        if self._typed is None:
            return None
        form, sets = self._typed
        progress = progress_of(run, batch) if run is not None and (run.steps or batch.resume) else None
        return SavedBatch(self._session.keeper.token, form, sets, progress)

    def come_back(self, token: str) -> bool:
        """Look what is saved under this address; True if there is something. Raises StoreError."""
        saved = self._session.keeper.saved
        if saved is None:
            return False
        found: list[SavedBatch | None] = []
        try:
            saved.ask(lambda store: found.append(store.load_batch(token)))
        except BadInputError:
            return False  # a damaged one must not keep the runs from coming back
        self.returning = found[0]
        return self.returning is not None


def progress_of(run: BatchRun, batch: SessionBatch) -> SavedProgress:
    """One that is on its way to where it had been counts as there."""
    return SavedProgress(
        name=batch.name,
        model=model_words(run.model),
        requests=tuple(
            {"id": r.request_id, "prompt": r.prompt, "chat": r.chat, "arrival": r.arrival, "params": vars(r.params)}
            for r in run.requests
        ),
        settings=vars(run.settings),
        num_steps=max(len(run.steps), batch.resume),
        aborted=batch.abort_again | run.aborted,
    )


def model_words(model: ModelLike) -> str:
    return f"{getattr(model, 'name', '')} in {model.weights.precision}"


def requests_of(saved: SavedProgress) -> tuple[list[BatchRequest], BatchSettings]:
    """The batch that ran, to be run again. Raises BadInputError for what cannot have been one."""
    try:
        requests = [
            BatchRequest(r["id"], r["prompt"], SamplingParams(**_tuples(r["params"])), r["arrival"], r["chat"] is True)
            for r in saved.requests
        ]
        return requests, BatchSettings(**saved.settings)
    except MiniInferError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise BadInputError(f"The saved batch is damaged ({type(error).__name__}: {error!s:.200}).") from error


def _tuples(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in params.items()}
