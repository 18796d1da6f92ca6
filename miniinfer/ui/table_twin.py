"""A figure's twin on pages that are not drawn on canvas: the table, where its numbers come from, and its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from miniinfer.figures.tables import frame_to_csv, frame_to_parquet
from miniinfer.provenance import Provenance

ROW, HEAD = 26, 34  # px of a row and of the line above the first


def whole_rows(count: int) -> int:
    """The height in px of a table that shows so many rows and scrolls: none is cut in half."""
    return HEAD + ROW * count


def draw_table_twin(
    frame: pd.DataFrame, key: str, source: Provenance | Mapping[Provenance, str], file_name: str, *,
    height: int | None = None, columns: Mapping[str, Any] | None = None, narrow: bool = False,
    csv: Callable[[], pd.DataFrame] | None = None,
) -> None:
    """A sortable table and buttons that save it as CSV and as Parquet. Token texts are cells, so shown as text.

    source: of all figures, or what comes from where. height: in px, at most, for a table that scrolls in a place of
    its own; one that is shorter has no empty rows, one that is longer no row cut in half.
    columns: how they are shown. narrow: it stands in half the page. csv: what is saved, if that is more than the
    table.
    """
    room = len(frame) if height is None else (height - HEAD) // ROW
    st.dataframe(
        frame, key=f"{key}_table", width="stretch", hide_index=True,
        height="auto" if height is None else whole_rows(room) if room < len(frame) else "content",
        column_config=dict(columns or {}), placeholder="", row_height=ROW,
    )
    left, *places = st.columns([3, 3, 4] if narrow else [8, 2, 2], vertical_alignment="center")
    if isinstance(source, Provenance):
        left.caption(f"Figures: {source.value}.")
    else:
        left.caption(" · ".join(f"{each.value}: {what}" for each, what in source.items()))
    draw_saves(csv or frame, key, file_name, places)


def opened_fold(title: str, key: str) -> DeltaGenerator | None:
    """A fold whose contents are made when it is opened: what nobody looks at costs nothing when the cursor moves."""
    folded = st.expander(title, key=key, on_change="rerun")
    return folded if folded.open else None


def draw_saves(
    table: pd.DataFrame | Callable[[], pd.DataFrame], key: str, file_name: str, places: Sequence[DeltaGenerator],
    csv: str = "Save CSV", parquet: str = "Save Parquet",
) -> None:
    """The buttons that save a table, or one that is made when it is wanted. file_name: ends in ".csv". csv, parquet:
    what they say."""

    def made() -> pd.DataFrame:
        return table() if callable(table) else table

    places[0].download_button(
        csv, lambda: frame_to_csv(made()), file_name=file_name, mime="text/csv", key=f"{key}_csv", width="stretch",
        on_click="ignore",
    )
    places[1].download_button(
        parquet, lambda: frame_to_parquet(made()), file_name=f"{file_name.removesuffix('.csv')}.parquet",
        mime="application/vnd.apache.parquet", key=f"{key}_parquet", width="stretch", on_click="ignore",
    )
