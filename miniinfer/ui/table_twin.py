"""A figure's twin on pages that are not drawn on canvas: the table, where its numbers come from, and its CSV."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import streamlit as st

from miniinfer.figures.tables import frame_to_csv
from miniinfer.provenance import Provenance

ROW = 26  # px


def draw_table_twin(
    frame: pd.DataFrame, key: str, source: Provenance | Mapping[Provenance, str], file_name: str, *,
    height: int | None = None, columns: Mapping[str, Any] | None = None, narrow: bool = False,
    csv: Callable[[], pd.DataFrame] | None = None,
) -> None:
    """A sortable table and a button that saves it as CSV. Token texts are cells, so they are shown as text.

    source: of all figures, or what comes from where. height: in px, for a table that scrolls in a place of its own.
    columns: how they are shown. narrow: it stands in half the page. csv: what is saved, if that is more than the
    table.
    """
    st.dataframe(
        frame, key=f"{key}_table", width="stretch", hide_index=True, height=height or "auto",
        column_config=dict(columns or {}), placeholder="", row_height=ROW,
    )
    left, right = st.columns([2, 1] if narrow else [5, 1], vertical_alignment="center")
    if isinstance(source, Provenance):
        left.caption(f"Figures: {source.value}.")
    else:
        left.caption(" · ".join(f"{each.value}: {what}" for each, what in source.items()))
    right.download_button(
        "Save CSV", lambda: frame_to_csv(csv() if csv else frame), file_name=file_name, mime="text/csv",
        key=f"{key}_csv", width="stretch", on_click="ignore",
    )
