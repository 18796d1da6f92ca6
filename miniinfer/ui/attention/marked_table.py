"""A table with one marked row, which a click in it and a choice made elsewhere both move."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import pandas as pd
import streamlit as st

from miniinfer.ui.table_twin import ROW

SETTLED = 1.0  # s after a mark was sent until the browser surely has it


class Stale(NamedTuple):
    """What the browser's table may still have marked, and when the newer mark was sent: None while it is not."""

    rows: list[list[int]]
    sent: float | None

    @property
    def settled(self) -> bool:
        return self.sent is not None and time.monotonic() - self.sent > SETTLED


def draw_marked_table(
    frame: pd.DataFrame, key: str, row: int | None, *, on_select: Callable[[], None],
    selection_mode: Literal["single-row", "single-row-required"], height: int, column_config: dict[str, Any],
) -> None:
    """row: the one to mark, None for none. on_select: calls `marked_row`."""
    rows = [] if row is None else [row]
    stale: Stale | None = st.session_state.get(f"{key}_stale")
    if (kept := _marked(key)) != rows:
        st.session_state[key] = {"selection": {"rows": rows}}
        older = [] if stale is None or stale.settled else stale.rows
        stale = st.session_state[f"{key}_stale"] = Stale([*older, kept], None)
    st.dataframe(
        frame, key=key, hide_index=True, width="stretch", height=height, row_height=ROW, placeholder="",
        column_config=column_config, on_select=on_select, selection_mode=selection_mode,
    )
    if stale is not None and stale.sent is None:
        st.session_state[f"{key}_stale"] = stale._replace(sent=time.monotonic())


def marked_row(key: str) -> tuple[bool, int | None]:
    """In `on_select`: whether a row was chosen, and which.

    The browser sends the mark of its table with every input. An input that comes while the page is still being drawn
    brings an older mark than the one set here: that is no choice, and following it would undo the newer one.
    """
    rows = _marked(key)
    stale: Stale | None = st.session_state.get(f"{key}_stale")
    chosen = stale is None or stale.settled or rows not in stale.rows
    return chosen, rows[0] if rows else None


def _marked(key: str) -> list[int]:
    kept = st.session_state.get(key)
    rows: list[int] = kept["selection"]["rows"] if kept else []
    return rows
