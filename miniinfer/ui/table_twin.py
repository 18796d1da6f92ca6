"""A figure's twin on pages that are not drawn on canvas: the table, where its numbers come from, and its CSV."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from miniinfer.figures.tables import frame_to_csv
from miniinfer.provenance import Provenance


def draw_table_twin(
    frame: pd.DataFrame, key: str, source: Provenance, file_name: str, *, height: int | None = None,
    columns: dict[str, Any] | None = None, narrow: bool = False,
) -> None:
    """A sortable table and a button that saves it as CSV. Token texts are cells, so they are shown as text.

    height: in px, for a table that scrolls in a place of its own. columns: how they are shown. narrow: it stands in
    half the page.
    """
    st.dataframe(
        frame, key=f"{key}_table", width="stretch", hide_index=True, height=height or "auto", column_config=columns,
        placeholder="",
    )
    left, right = st.columns([2, 1] if narrow else [5, 1], vertical_alignment="center")
    left.caption(f"Figures: {source.value}.")
    right.download_button(
        "Save CSV", lambda: frame_to_csv(frame), file_name=file_name, mime="text/csv", key=f"{key}_csv",
        width="stretch", on_click="ignore",
    )
