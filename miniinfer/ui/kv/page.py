"""The KV cache page: three numbers and the product behind them, then one of five views of the same run and step."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import streamlit as st

from miniinfer.errors import MiniInferError
from miniinfer.figures.kv.shapes import factors
from miniinfer.figures.kv.words import exact, three_numbers
from miniinfer.provenance import Provenance
from miniinfer.trace.live_run import LiveRun
from miniinfer.ui.kv.blocks import draw_blocks
from miniinfer.ui.kv.bytes import draw_bytes
from miniinfer.ui.kv.look import KVLook, LiveLook
from miniinfer.ui.kv.predict import draw_predict
from miniinfer.ui.kv.reads import draw_reads
from miniinfer.ui.kv.recorded import draw_recorded
from miniinfer.ui.kv.vectors import draw_vectors
from miniinfer.ui.page import page
from miniinfer.ui.sessions.session import Session
from miniinfer.ui.views import draw_views

VIEWS: dict[str, Callable[[LiveLook], None]] = {
    "Keys and values": draw_vectors, "Who reads them": draw_reads, "Blocks": draw_blocks, "Bytes": draw_bytes,
    "Predict": draw_predict,
}  # fmt: skip


def draw_kv_cache(session: Session) -> None:
    """Linked to the session's run and cursor: the transport in the frame moves what is shown here."""

    @st.fragment
    def body() -> None:
        with page("kv", "How is the KV cache built, and what does it cost?"):
            run = session.timeline.current
            assert run is not None  # a session always has a run: the recorded example at the least
            look = LiveLook(session, run, run) if isinstance(run, LiveRun) else KVLook(session, run)
            _head(look)
            try:
                if isinstance(look, LiveLook):
                    _views(look)
                else:
                    draw_recorded(look)
            except MiniInferError as caught:
                st.text(str(caught))

    body()


def _views(look: LiveLook) -> None:
    VIEWS[draw_views("kv_view", list(VIEWS), "Keys and values")](look)


def _head(look: KVLook) -> None:
    """Used, allocated, reserved, and why used is what it is."""
    source = Provenance.RECORDED if look.run.info.kind == "recorded" else Provenance.COMPUTED
    with st.container(key="kv_head"):
        st.text(three_numbers(look.meta))
        st.html(_formula(look))
        st.caption(
            f"Figures: {source.value}. used: positions that hold something; allocated: the blocks of this run, shared "
            "ones whole; reserved: the bytes of the pool's own storage."
        )


def _formula(look: KVLook) -> str:
    """The product with every factor named, in its colour. Names and numbers only, nothing of the user's."""
    info, colours = look.run.info, look.colours.series
    parts = factors(look.shape, info.itemsize, look.context_len)
    product = 1
    for part in parts:
        product *= part.value
    shown = " <i>×</i> ".join(
        f'<span title="{escape(p.why)}" style="color:{colours[p.colour]}"><b>{p.value:,}</b> {escape(p.name)}</span>'
        for p in parts
    )
    return f'<div class="kv-formula">{shown} <i>=</i> <span><b>{exact(product)}</b> used</span></div>'
