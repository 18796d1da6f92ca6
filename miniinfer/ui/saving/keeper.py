"""How one session's runs are saved and come back. Called with the session's lock held, but for what is saved later."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from miniinfer.errors import MiniInferError
from miniinfer.figures.quoting import quoted
from miniinfer.store.saved_run import SavedModel, SavedRun
from miniinfer.trace.live_run import LiveRun
from miniinfer.ui.saving.came_back import came_back
from miniinfer.ui.saving.form import copies_of, highest_number, info_of, known_steps, path_to, saved_form
from miniinfer.ui.saving.model_of_run import (
    check_loaded,
    check_model_file,
    is_of,
    key_of,
    saved_model,
    where_it_is_now,
)
from miniinfer.ui.saving.saved_runs import EXAMPLE_ID, SavedRuns, new_token
from miniinfer.ui.saving.share import SavedShare
from miniinfer.ui.saving.view import SavedView, Wanted, saved_view

if TYPE_CHECKING:
    from miniinfer.models.loader import LoadedModel
    from miniinfer.trace.parts import Parts
    from miniinfer.ui.sessions.session import Session


class RunKeeper:
    """`token` names the session in its address. `waiting`: its runs that are saved and not in memory."""

    def __init__(self, session: Session, saved: SavedRuns | None) -> None:
        self._session = session
        self.saved = saved
        self.token = self.browser = new_token()  # the browser's own name comes with its cookie
        self.waiting: dict[str, SavedRun] = {}
        self.wanted: Wanted | None = None
        self.view: SavedView | None = None  # of the wanted run, while its model is being loaded
        self.unread: dict[str, str] | None = None  # an address whose file could not be read
        self._left_at: tuple[str, int] | None = None
        self._models: dict[str, SavedModel] = {}
        self._created: dict[str, float] = {}
        self._written: dict[str, SavedRun] = {}  # touched by the writer's thread alone, but for what is let go
        self.share = SavedShare(session)
        self._quiet: set[str] = set()  # runs that nobody asked for: saved once the user does something with them
        if saved is not None:
            saved.connect(self.token, session)

    @property
    def problem(self) -> str | None:
        return self.share.problem or (self.saved.problem if self.saved is not None else None)

    @property
    def comes_back(self) -> str | None:
        """The run that the address names and that is not there yet."""
        return self.unread["run"] if self.unread else self.wanted.run_id if self.wanted else None

    @property
    def place(self) -> tuple[str, int] | None:
        """Run and step in view, or that were when the session was closed; None if that was no run of its own."""
        timeline = self._session.timeline
        if self._session.closed or not isinstance(timeline.current, LiveRun):
            return self._left_at
        return timeline.current.info.run_id, timeline.cursor

    # Saving

    def made(self, run: LiveRun, model: LoadedModel | None = None, *, quiet: bool = False) -> None:
        """A new run: of this model, or a branch, of its trunk's."""
        run_id = run.info.run_id
        if model is not None:
            self._models[run_id] = saved_model(self._session.key, model, run.info.backend)
        elif run.info.parent in self._models:
            self._models[run_id] = self._models[run.info.parent]
            trunk = self._session.timeline.get(run.info.parent) if run.info.parent in self._session.timeline else None
            if run.info.parent in self._quiet and isinstance(trunk, LiveRun):
                self.changed(trunk)  # a branch says what it left
        self._created[run_id] = time.time()
        self.share.made(run_id)
        if quiet:
            self._quiet.add(run_id)
        else:
            self.changed(run)

    def changed(self, run: object) -> None:
        """Have the run saved as it will stand a moment later."""
        if self.saved is None or not isinstance(run, LiveRun):
            return
        run_id, token = run.info.run_id, self.token
        if run_id not in self._models or run_id in self.share:
            return
        self._quiet.discard(run_id)
        self.unread = None  # something was begun here
        self.saved.own(token, self.browser)

        def snapshot() -> SavedRun | None:
            if self.saved is None or self.token != token or not self.saved.owns(token, self._session):
                return None  # the address went to another session meanwhile: what it has is newer
            cursor = self._session.timeline.cursor_of(run_id)
            before = self._written.get(run_id)
            form = saved_form(run, token, self._models[run_id], self._created[run_id], cursor, before=before)
            if form is not None:
                self._written[run_id] = form
            return form

        self.saved.changed((self._session.session_id, run_id), snapshot)

    def looked_at(self, run: object) -> None:
        """The cursor moved: worth saving for a run that is saved already."""
        if isinstance(run, LiveRun) and run.info.run_id not in self._quiet:
            self.changed(run)

    def keeps(self, run: LiveRun) -> bool:
        """Whether it comes back after it has left memory."""
        return self.saved is not None and run.info.run_id in self._models.keys() - self._quiet

    def leaving_memory(self, runs: Sequence[LiveRun]) -> None:
        """Called before runs are released: they stay in the list and come back when they are opened."""
        if self.saved is None or not runs:
            return
        self.saved.flush()
        for run in runs:
            run_id = run.info.run_id
            self._written.pop(run_id, None)
            if self.keeps(run) and not self._session.closed:
                cursor = self._session.timeline.cursor_of(run_id)
                form = saved_form(run, self.token, self._models[run_id], self._created[run_id], cursor)
                if form is not None:
                    self.waiting[run_id] = form

    def forget(self, run_id: str) -> None:
        self.waiting.pop(run_id, None)
        self._written.pop(run_id, None)
        self.share.forget(run_id)
        if self.wanted and self.wanted.run_id == run_id:
            self.give_up()

    def give_up(self) -> None:
        """Nothing is about to come back any more."""
        self.wanted = self.view = None

    def look_at_view(self, step: int) -> None:
        """Where the reader stands in it; it comes back there."""
        if self.view is not None:
            run_id = self.view.info.run_id
            self.waiting[run_id] = replace(self.waiting[run_id], cursor=min(step, len(self.view.steps)))

    def close(self) -> None:
        if self.saved is not None:
            self._left_at = self.place
            self.saved.flush()
            self.saved.disconnect(self.token, self._session)

    # Coming back

    def come_back(self, token: str, run_id: str | None, step: int | None) -> bool:
        """Take over the session of this address, or a copy of its run if somebody is connected under it. True if the
        run is there, now or as soon as its model is. Raises StoreError."""
        if self.saved is None:
            return False
        runs = {run.run_id: run for run in self._load(token)}
        recording = self.saved.recordings.get(token, run_id)
        batch = self._session.batch.keep.come_back(token)
        if not runs and recording is None and not batch:
            return False
        named, run_id = run_id, run_id if run_id in runs else None
        if self.saved.take_over(token, self._session):
            if token != self.token:
                self.saved.disconnect(self.token, self._session)
                self.token = token
            ids: list[str] = []  # deleted ones included: none is given again
            self.saved.ask(lambda store: ids.extend(store.run_ids(token)))
            self._session.timeline.count_at_least(highest_number(ids))
            self.waiting = {**self.waiting, **runs}
            if recording is not None:
                self._session.add_recording(recording, named, 1 if step is None else step)
            if run_id is None:
                return recording is not None
            if step is not None:
                self.waiting[run_id] = replace(runs[run_id], cursor=min(step, len(runs[run_id].steps)))
            self._want(run_id, "", step or 0)
            return True
        if recording is not None:
            self._session.add_recording(recording, None, 1 if step is None else step)
        if run_id is None:
            return recording is not None
        mine = self.copy_in(path_to(runs, run_id), step)
        self._want(mine, "This is a copy of your own; the run you followed the link to stays as it is. ")
        return True

    def copy_in(self, path: Sequence[SavedRun], step: int | None = None) -> str:
        """Copies of a run and the trunks it left, root first, as runs of this session. The id of the last one."""
        copies = copies_of(path, self.token, self._session.timeline.new_id, step)
        self.waiting |= {copy.run_id: copy for copy in copies}
        if self.saved is not None:
            self.saved.own(self.token, self.browser)
            self.saved.ask(lambda store: store.save(copies))
        return copies[-1].run_id

    def _load(self, token: str) -> list[SavedRun]:
        assert self.saved is not None
        found: list[SavedRun] = []
        self.saved.ask(lambda store: found.extend(store.load_session(token)))
        return found

    def open(self, run_id: str) -> None:
        """Bring a waiting run back and look at it; if its model has to be loaded first, as soon as that is done."""
        self._want(run_id, "")
        self.bring_back()

    def _want(self, run_id: str, note: str, step: int = 0) -> None:
        session = self._session
        session.host.check_source(key_of(self.waiting[run_id].model))
        saved = self.waiting[run_id] = where_it_is_now(self.waiting[run_id], session.key, session.model)
        key = key_of(saved.model)
        check_model_file(saved)
        self.wanted = Wanted(run_id, note, step)
        if key != session.key or (session.model is not None and not is_of(saved.model, session.model)):
            session.load_model(key)  # anew, if its file was replaced since it was loaded
        if session.model is None:
            session.note = (
                f"{note}{quoted(saved.name)} ({len(saved.steps)} steps) comes back as soon as its model, "
                f"{saved.model.name}, is loaded."
            )
            self.view = saved_view(saved)

    def bring_back(self) -> bool:
        """The wanted run comes into view, if its model is there. What fails is a sentence, and the run stays saved."""
        session, wanted = self._session, self.wanted
        if wanted is None or session.model is None or wanted.run_id not in self.waiting:
            return False
        self.give_up()
        saved, started = self.waiting[wanted.run_id], time.perf_counter()
        try:
            for each in path_to(self.waiting, wanted.run_id):
                try:
                    run = session.with_room(partial(self._restore, each))
                except MiniInferError:
                    if each is saved:
                        raise
        except MiniInferError as error:
            session.error = f"{quoted(saved.name)} cannot come back: {error}"
            return False
        if EXAMPLE_ID in session.timeline:
            session.timeline.remove(EXAMPLE_ID)
        session.let_old_runs_go()
        session.note = came_back(session, saved, run, wanted, started)
        return True

    def bring_back_all(self) -> None:
        """Those of the model in use, for a page that looks at several runs. The one in view stays in view."""
        session = self._session
        current, room = session.timeline.current, session.room()
        if session.model is None or current is None or not room:
            return
        for saved in list(self.waiting.values())[-room:]:
            saved = where_it_is_now(saved, session.key, session.model)
            if key_of(saved.model) == session.key:
                try:
                    check_model_file(saved)
                    self._restore(saved)
                except MiniInferError as error:
                    session.error = str(error)
        session.timeline.open(current.info.run_id)

    def _restore(self, saved: SavedRun) -> LiveRun:
        from miniinfer.trace.resume import resume_in_parts

        session, model = self._session, self._session.model
        saved = where_it_is_now(saved, session.key, model)
        model = check_loaded(saved, model)
        session.inside.leave()  # it may need the blocks that a look into a step holds
        found = session.timeline.get(saved.parent) if saved.parent and saved.parent in session.timeline else None
        session.wake([found])

        def make() -> Parts[LiveRun]:
            engine, trunk = None, found if isinstance(found, LiveRun) else None
            if trunk is not None and trunk.engine.model is model and trunk.info.block_size == saved.block_size:
                engine = trunk.engine  # blocks can be shared within one engine only
            engine = engine or session.engine_for(model, saved.block_size, saved.model.backend)
            facts = info_of(saved, engine, model), saved.prompt_ids, known_steps(saved), session.describe(model)
            return resume_in_parts(engine, *facts, session.budget, trunk)

        run = session.in_engine_in_parts(make)
        made_with = replace(saved.model, backend=run.info.backend)
        self._models[saved.run_id], self._created[saved.run_id] = made_with, saved.created
        session.timeline.add(run, cursor=min(saved.cursor, len(run.steps)))
        self.waiting.pop(saved.run_id, None)
        return run
