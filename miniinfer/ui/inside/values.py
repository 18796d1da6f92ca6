"""The values of one tensor: heat map with its scale, histogram, a corner of exact numbers, and what can be saved."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from miniinfer.figures.inside.picture import picture_of, scale_of
from miniinfer.figures.inside.plots import heat_figure, histogram_figure
from miniinfer.figures.inside.tables import corner_table, facts_words, histogram_table, matrix_table, shape_words
from miniinfer.provenance import Provenance
from miniinfer.trace.inside.records import FieldLook, StageLook, TensorView
from miniinfer.ui.figure import draw_figure
from miniinfer.ui.inside.look import InsideLook
from miniinfer.ui.table_twin import draw_saves, draw_table_twin

ALL = "all heads"
CORNER_ROWS, CORNER_COLUMNS = 5, 4
FEW = 8  # values that are only written down
EXACT = 9  # significant digits that tell every float32 from its neighbours
MOST_SAVED = 200_000  # values in one CSV


def draw_values(look: InsideLook, stage: StageLook, field: FieldLook) -> None:
    assert field.facts is not None
    head, row = _choices(look, field)
    view = look.ask(lambda inside: inside.view(field.role, field.name, head, row))
    if view.values.size <= FEW:
        with st.container(key="inside_values"):
            st.text(f"{field.name}   {shape_words(field.facts)}   {field.facts.dtype}\n{facts_words(field.facts)}")
            _numbers(corner_table(view, 0, 0, 1, FEW))
        return
    picture = picture_of(view)
    scale = scale_of(picture.cells, clip=bool(st.session_state.get("inside_clip", True)))
    with st.container(key="inside_values"):
        st.text(f"{field.name}   {shape_words(field.facts)}   {field.facts.dtype}\n{facts_words(field.facts)}")
        figure = heat_figure(view, picture, scale, look.colours, 250)
        where = f"{stage.name}{'' if stage.layer is None else f' of layer {stage.layer}'}: {field.name}"
        draw_figure(figure, "inside_heat", f"{where}. {scale.words}", name=f"{stage.name}_{field.name}")
        pooled = picture.row_size * picture.column_size
        sizes = f"{picture.row_size} × {picture.column_size}"
        cells = f" A cell is the largest in size of {sizes} values." if pooled > 1 else ""
        part = f" Shown: {view.part}." if view.part else ""
        st.caption(f"{scale.words}{cells}{part} Figures: {Provenance.COMPUTED.value}, on a replay of this step.")
        draw_figure(
            histogram_figure(view, look.colours, 130), "inside_histogram", f"{where}, how many values lie where",
            name=f"{stage.name}_{field.name}_histogram",
        )
        _corner(look, view)


def _choices(look: InsideLook, field: FieldLook) -> tuple[int | None, int | None]:
    """(head, row): None for all. A head stays chosen where the next tensor has it."""
    state = st.session_state
    head: int | None = None
    with st.container(horizontal=True, vertical_alignment="center", key="inside_choices", gap=10):
        if field.heads:
            options = [ALL, *(f"head {h}" for h in range(field.heads))]
            if state.get("inside_head") not in options:
                state["inside_head"] = ALL
            chosen = st.selectbox("Head", options, key="inside_head", label_visibility="collapsed", width=108)
            head = None if chosen == ALL else options.index(chosen) - 1
        one = False
        if field.has_rows and look.rows.count > 1:
            one = st.toggle("this position", key="inside_one_row", persist_state="session")
        st.toggle(
            "clip at 99 %", value=True, key="inside_clip", persist_state="session",
            help="The colours end at the size that 99 % of the cells stay below, so that a few large values do not "
            "leave all others pale. Off: they end at the largest.",
        )
    attention = field.facts is not None and "Tq" in field.facts.letters
    return head, look.row if one or (attention and head is None) else None


def _corner(look: InsideLook, view: TensorView) -> None:
    """A window of exact numbers; by default it begins at the position looked at."""
    rows, columns = view.values.shape
    by_position = view.row_unit == "position"
    at = look.position - view.row_start if by_position else 0
    at = min(max(at - CORNER_ROWS + 1, 0), rows - 1)
    with st.container(horizontal=True, vertical_alignment="center", key="inside_corner", gap=8):
        st.markdown("**Exact numbers**" if rows <= CORNER_ROWS else "**Exact:** row")
        row = column = 0
        if rows > CORNER_ROWS:
            row = int(st.number_input(
                "from row", 0, rows - 1, at, key=f"inside_corner_row_{view.row_start}_{rows}_{at}", width=74,
                label_visibility="collapsed",
            ))  # fmt: skip
        if columns > CORNER_COLUMNS:
            st.markdown("column")
            column = int(st.number_input(
                "from column", 0, columns - 1, 0, key=f"inside_corner_column_{columns}", width=74,
                label_visibility="collapsed",
            ))  # fmt: skip
        with st.popover("Tables"):
            _tables(view)
    _numbers(corner_table(view, row, column, CORNER_ROWS, CORNER_COLUMNS))


def _numbers(frame: pd.DataFrame) -> None:
    number = st.column_config.NumberColumn(format=f"%.{EXACT}g")
    st.dataframe(
        frame, hide_index=True, row_height=26, height="content", width="stretch", key="inside_corner_table",
        column_config=dict.fromkeys(frame.columns[1:], number),
    )


def _tables(view: TensorView) -> None:
    """The twins of both figures."""
    if view.values.size <= MOST_SAVED:
        values = f"{view.values.size:,} values shown"
        draw_saves(
            lambda: matrix_table(view), "inside_matrix", f"{view.name}.csv", st.columns(2),
            f"Save all {values} as CSV", f"Save all {values} as Parquet",
        )
    else:
        st.caption(f"{view.values.size:,} values are more than one file takes here: choose one head or one position.")
    draw_table_twin(histogram_table(view), "inside_histogram", Provenance.COMPUTED, "histogram.csv")
