"""The page of saved runs: a list to search, and what can be done with the chosen one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pandas as pd
import streamlit as st

from miniinfer.errors import MiniInferError
from miniinfer.figures.quoting import isolated, quoted
from miniinfer.store.database import RunLine
from miniinfer.ui.room import more_rows
from miniinfer.ui.runs.actions import delete_run, duplicate_run, link_to, load_run, rename_run, undo_delete
from miniinfer.ui.runs.import_run import draw_examples, draw_import
from miniinfer.ui.runs.take_away import draw_take_away
from miniinfer.ui.saving.saved_runs import SavedRuns
from miniinfer.ui.sessions.run_facts import one_line
from miniinfer.ui.sessions.session import Session
from miniinfer.ui.table_twin import ROW, whole_rows

MOST = 500  # lines; the search finds the others
SHOWN = 15  # lines without scrolling
PROMPT_LETTERS = 120
CHOSEN, DELETED, SAID = "runs_chosen", "runs_deleted", "runs_said"


def draw_runs(session: Session) -> None:
    with st.container(key="page_body"), st.container(key="runs"):
        st.title("Which runs are saved?", anchor=False)
        saved = session.keeper.saved
        if saved is None:
            st.text("Runs are not saved here.")
            _files(session)
            return
        if said := st.session_state.pop(SAID, None):
            with st.container(key="runs_said"):
                st.text(said)
        try:
            _draw(session, saved)
        except MiniInferError as error:
            st.text(str(error))


def _files(session: Session) -> None:
    """Runs as files: out, in, and those that are there from the start."""
    with st.popover("Take the run in view away", key="runs_away"):
        draw_take_away(session)
    with st.popover("Open a run file", key="runs_in"):
        draw_import(session)
    with st.popover("Examples", key="runs_examples"):
        draw_examples(session)


def _draw(session: Session, saved: SavedRuns) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom", key="runs_bar"):
        search = st.text_input(
            "Search", key="runs_search", placeholder="Name, prompt or model", label_visibility="collapsed",
            max_chars=200,
        )
        _files(session)
    lines: list[RunLine] = []
    facts: list[int] = []
    owner = session.keeper.browser if saved.shared else None
    saved.ask(lambda store: lines.extend(store.lines(search.strip(), MOST + 1, owner)))
    more = len(lines) > MOST
    lines = [replace(line, name=one_line(line.name) or "no name") for line in lines[:MOST]]
    saved.ask(lambda store: facts.extend((store.total_bytes(), store.max_bytes, store.num_deleted(owner))))
    _undo(session, saved)
    if not lines:
        st.text(
            f"No saved run has {quoted(search.strip())} in its name, prompt or model." if search.strip() else
            "A run is saved by itself as soon as you step it, branch from it or start it in the side panel. It will be "
            "listed here, and its address brings it back."
        )  # fmt: skip
    _size(saved, owner, len(lines), more, *facts)
    if lines:
        _table(session, saved, lines)
    chosen = st.session_state.get(CHOSEN)
    line = next((line for line in lines if (line.session, line.run_id) == chosen), None)
    if line is not None:
        _chosen(session, saved, line)
    elif lines:
        st.caption("Choose a row to open, rename, duplicate or delete that run, or to copy its link.")


def _table(session: Session, saved: SavedRuns, lines: list[RunLine]) -> None:
    def where(line: RunLine) -> str:
        if line.session == session.keeper.token:
            return "this tab"
        return "another tab" if saved.holder(line.session) is not None else ""

    frame = pd.DataFrame(
        {
            "name": [line.name for line in lines],
            "prompt": [one_line(line.prompt[: 2 * PROMPT_LETTERS])[:PROMPT_LETTERS] for line in lines],
            "model": [line.model for line in lines],
            "steps": [line.num_steps for line in lines],
            "last change": pd.to_datetime([line.updated for line in lines], unit="s", utc=True).tz_convert(
                datetime.now().astimezone().tzinfo
            ),
            "in use": [where(line) for line in lines],
            "kB": [line.data_bytes / 1000 for line in lines],
        }
    )
    keys = [(line.session, line.run_id) for line in lines]
    most = SHOWN + more_rows(ROW)
    # A key of its own for each order of rows: a choice is a row number, and must not slip to another run.
    st.dataframe(
        frame, key=f"runs_table_{abs(hash(tuple(keys)))}", hide_index=True, width="stretch", placeholder="",
        row_height=ROW, height="content" if len(lines) <= most else whole_rows(most),
        selection_mode="single-row", on_select=lambda: _choose(keys),
        column_config={
            "name": st.column_config.TextColumn(width=180),
            "prompt": st.column_config.TextColumn(width=280),
            "last change": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm"),
            "kB": st.column_config.NumberColumn(format="%.1f", width=50),
        },
    )  # fmt: skip


def _choose(keys: list[tuple[str, str]]) -> None:
    state: Any = st.session_state.get(f"runs_table_{abs(hash(tuple(keys)))}")
    rows = state["selection"]["rows"] if state else []
    st.session_state[CHOSEN] = keys[rows[0]] if rows and rows[0] < len(keys) else None


def _size(saved: SavedRuns, owner: str | None, shown: int, more: bool, used: int, limit: int, deleted: int) -> None:
    """more: there are others than those that are shown."""
    runs = f"{shown:,} run{'' if shown == 1 else 's'} {'of this browser ' if owner else ''}shown"
    runs = f"The newest {runs}; the search finds the others" if more else runs
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(
            f"{runs}. The file takes {used / 2**20:,.2f} MB of at most "
            f"{limit / 2**20:,.0f} MB (measured). Kept: prompt, tokens, settings, times; keys, values and attention "
            "are computed again when a run is opened."
        )
        if deleted and st.button(f"Remove {deleted:,} deleted for good", key="runs_purge"):
            _act(lambda: saved.purge(owner), "Deleted runs were removed for good.")
            st.session_state.pop(DELETED, None)
            st.rerun()


def _undo(session: Session, saved: SavedRuns) -> None:
    deleted = st.session_state.get(DELETED)
    if deleted is None:
        return
    token, run_id, name = deleted
    with st.container(key="runs_undo", horizontal=True, vertical_alignment="center"):
        st.text(f"{quoted(name)} was deleted. It can be taken back for a day.")
        if st.button("Undo", key="runs_undo_button"):
            if _act(lambda: undo_delete(session, saved, token, run_id), f"{quoted(name)} is back."):
                st.session_state.pop(DELETED, None)
            st.rerun()


def _chosen(session: Session, saved: SavedRuns, line: RunLine) -> None:
    token, run_id = line.session, line.run_id
    mine = token == session.keeper.token
    cursor = session.timeline.cursor_of(run_id) if mine and run_id in session.timeline else None
    if cursor is None:
        cursor = load_run(saved, token, run_id).cursor
    link = link_to(st.context.url, token, run_id, cursor)
    with st.container(key="runs_chosen_actions"):
        st.text(f"{isolated(line.name)} · {line.num_steps:,} step{'' if line.num_steps == 1 else 's'} · {line.model}")
        with st.container(horizontal=True, vertical_alignment="bottom"):
            if not mine:
                st.link_button("Open in a new tab", link, type="primary")
            elif st.button("Open", type="primary", key="runs_open") and _act(lambda: session.open(run_id), None):
                st.switch_page("pages/workspace.py")
            if st.button("Duplicate", key="runs_duplicate", help="A copy in this tab; it stands in the run menu."):
                said = f"A copy of {quoted(line.name)} is in this tab."
                _act(lambda: duplicate_run(session, saved, token, run_id), said)
                st.rerun()
            if st.button("Delete", key="runs_delete"):
                if _act(lambda: delete_run(session, saved, token, run_id), None):
                    st.session_state[DELETED] = (token, run_id, line.name)
                    st.session_state.pop(CHOSEN, None)
                st.rerun()
        with (
            st.form("runs_rename", border=False),
            st.container(horizontal=True, vertical_alignment="bottom"),
        ):
            name = st.text_input("New name", value=line.name, max_chars=40, key=f"runs_name_{token}_{run_id}")
            renamed = st.form_submit_button("Rename")
        if renamed:
            _act(lambda: rename_run(session, saved, token, run_id, name), None)
            st.rerun()
        others = "for every other browser it opens a copy" if saved.shared else "the link opens a copy"
        st.caption(
            f"Link to this run at step {cursor}. In a tab that has it open already, the run stays there and {others}; "
            "anybody with access to this server can follow it."
        )
        st.code(link, language=None)


def _act(action: Callable[[], object], said: str | None) -> bool:
    """Do it; what is said stands on the page when it is drawn next."""
    try:
        action()
    except MiniInferError as error:
        st.session_state[SAID] = str(error)
        return False
    if said is not None:
        st.session_state[SAID] = said
    return True
