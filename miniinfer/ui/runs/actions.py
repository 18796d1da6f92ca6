"""What can be done to a saved run, of this session or of an earlier one. All raise MiniInferError with nothing done."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlencode

from miniinfer.errors import BadInputError
from miniinfer.store.saved_run import SavedRun
from miniinfer.ui.saving.form import path_to
from miniinfer.ui.saving.saved_runs import SavedRuns
from miniinfer.ui.sessions.run_facts import short_name
from miniinfer.ui.sessions.session import Session


def load_run(saved: SavedRuns, token: str, run_id: str) -> SavedRun:
    found: list[SavedRun | None] = []
    saved.ask(lambda store: found.append(store.load(token, run_id)))
    if found[0] is None:
        raise BadInputError("This run is not saved any more: it was deleted meanwhile.")
    return found[0]


def rename_run(session: Session, saved: SavedRuns, token: str, run_id: str, name: str) -> None:
    """The session that has the run in memory says its name, and has it saved; else the file is changed."""
    new = short_name(name)
    if not new:
        raise BadInputError("A run needs a name: type at least one character.")
    holder = session if token == session.keeper.token else saved.holder(token)
    if holder is not None and holder.rename(run_id, new):
        return
    renamed = replace(load_run(saved, token, run_id), name=new)
    saved.ask(lambda store: store.save([renamed]))
    if token == session.keeper.token and run_id in session.keeper.waiting:
        session.keeper.waiting[run_id] = replace(session.keeper.waiting[run_id], name=new)


def duplicate_run(session: Session, saved: SavedRuns, token: str, run_id: str) -> str:
    """A copy in this session, with the trunks it left. Its id."""
    runs: dict[str, SavedRun] = {}
    saved.ask(lambda store: runs.update({run.run_id: run for run in store.load_session(token)}))
    if run_id not in runs:
        load_run(saved, token, run_id)  # says what is wrong with it
    path = path_to(runs, run_id)
    path[-1] = replace(path[-1], name=short_name(f"Copy of {path[-1].name}"))
    with session.lock:
        return session.keeper.copy_in(path)


def delete_run(session: Session, saved: SavedRuns, token: str, run_id: str) -> None:
    saved.ask(lambda store: store.delete(token, run_id))
    if token == session.keeper.token:
        session.forget(run_id)
    elif (holder := saved.holder(token)) is not None:
        holder.keeper.share.deleted(run_id)


def undo_delete(session: Session, saved: SavedRuns, token: str, run_id: str) -> None:
    saved.ask(lambda store: store.restore(token, run_id))
    if token != session.keeper.token and (holder := saved.holder(token)) is not None:
        holder.keeper.share.restored(run_id)
    if token == session.keeper.token:
        run = load_run(saved, token, run_id)
        with session.lock:
            session.keeper.waiting[run_id] = run


def link_to(url: str | None, token: str, run_id: str, step: int) -> str:
    """The address that opens a run at a step. url: that of any page of this app."""
    root = (url or "/").split("?", 1)[0].removesuffix("/").removesuffix("/runs") + "/"
    return root + "?" + urlencode({"s": token, "run": run_id, "step": str(step)})
