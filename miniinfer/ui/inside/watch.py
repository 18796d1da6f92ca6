"""Watch a tensor over the layers: its norm at one position, and one coordinate of it."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.inside.plots import lines_figure
from miniinfer.figures.inside.tables import watch_table
from miniinfer.provenance import Provenance
from miniinfer.ui.figure import draw_figure
from miniinfer.ui.inside.look import InsideLook
from miniinfer.ui.room import roomy
from miniinfer.ui.table_twin import draw_table_twin


def draw_watch(look: InsideLook) -> None:
    rows = look.stage_rows()
    names = rows.names
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.selectbox(
            "Tensor", names, index=names.index("resid_post"), key="inside_watched", persist_state="session", width=200
        )
        tensors = rows.over_layers(name)
        shape, size = tensors[0].values.shape, tensors[0].values.size
        coordinate = int(st.number_input(
            f"Coordinate, 0 to {size - 1:,}", 0, size - 1, 0, key=f"inside_coordinate_{size}", width=200,
        ))  # fmt: skip
    where = f" (head {coordinate // shape[1]}, {coordinate % shape[1]})" if len(shape) == 2 else ""
    frame = watch_table(tensors, coordinate)
    left, right = st.columns(2, gap="medium")
    height = roomy(256)
    with left:
        st.markdown(f"**How long is {name} at position {look.position} after each layer?**")
        draw_figure(
            lines_figure({"norm": frame["norm"].tolist()}, look.colours, height, y=f"L2 norm of {name}"),
            "inside_watch_norm", f"Norm of {name} at position {look.position} over the layers", name=f"{name}_norm",
        )
    with right:
        st.markdown(f"**What happens to coordinate {coordinate}{where}?**")
        values = frame[f"value {coordinate}"].tolist()
        draw_figure(
            lines_figure({"value": values}, look.colours, height, y=f"{name}[{coordinate}]"), "inside_watch_value",
            f"Coordinate {coordinate} of {name} at position {look.position} over the layers",
            name=f"{name}_{coordinate}",
        )
    draw_table_twin(frame, "inside_watch", Provenance.COMPUTED, f"{name}_over_layers.csv")
