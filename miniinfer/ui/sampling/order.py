"""The same settings in two orders: who survives in which."""

from __future__ import annotations

import dataclasses

import streamlit as st

from miniinfer.figures.sampling.plots import orders_figure
from miniinfer.figures.sampling.tables import orders_table, survivors_count
from miniinfer.figures.sampling.words import describe_order
from miniinfer.provenance import Provenance
from miniinfer.trace.sampling.sampling import ORDERS
from miniinfer.ui.room import TOKEN_BAR, more_rows
from miniinfer.ui.run_look import PLOT
from miniinfer.ui.sampling.look import Look, probabilities
from miniinfer.ui.table_twin import draw_table_twin

SHOWN = 16
ROWS = 200
NAMES = ("temperature first", "temperature last")


def draw_orders(look: Look) -> None:
    """The stages that are switched on at the left, in both named orders, whatever order is set there."""
    orders = [tuple(name for name in order if name in look.params.order) for order in ORDERS.values()]
    first, second = (look.sampling(dataclasses.replace(look.params, order=order)) for order in orders)
    both, only_first, only_second = survivors_count(first, second)
    st.markdown("**Who survives when the temperature comes before the filters, and when it comes after them?**")
    columns = st.columns(3)
    columns[0].metric(f"stay in both, at temperature {look.params.temperature:g}", f"{both:,}")
    columns[1].metric("only with temperature first", f"{only_first:,}")
    columns[2].metric("only with temperature last", f"{only_second:,}")
    if look.params.greedy:
        st.caption("Temperature 0 is greedy: the best token is taken in either order.")
    elif "temperature" not in look.params.order:
        st.caption("The stage Temperature is switched off at the left, so both orders are the same.")
    elif look.params.temperature == 1:
        st.caption("At temperature 1 both orders are the same. Change the temperature to see them part.")
    st.plotly_chart(
        orders_figure(first, second, NAMES, SHOWN + more_rows(TOKEN_BAR), look.text, look.colours),
        key="sampling_orders", config=PLOT, alt="Used probabilities in two orders",
    )
    drawn = [look.quoted(s.token_id) for s in (first, second)]
    st.text(f"The coin {first.coin:.4f} lands on {drawn[0]} with temperature first, on {drawn[1]} with it last.")
    for name, order in zip(NAMES, orders, strict=True):
        st.caption(f"{name}: {describe_order(order)}")
    with st.expander("Table: survivors, and why each fell in the other order"):
        frame = orders_table(first, second, NAMES, look.text, ROWS)
        draw_table_twin(frame, "sampling_orders", Provenance.COMPUTED, "orders.csv", columns=probabilities(*NAMES))
