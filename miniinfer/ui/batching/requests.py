"""Requests and settings: an editable table, arrivals set or drawn, and how the requests are served."""

from __future__ import annotations

from typing import Any

import streamlit as st

from miniinfer.config import POLICIES, PROCESSOR_NAMES, SamplingParams
from miniinfer.errors import MiniInferError
from miniinfer.trace.batch.settings import POLICY_NAMES, draw_arrivals
from miniinfer.ui.batching.file import draw_file
from miniinfer.ui.batching.form import MAX_REQUESTS, MORE, USUAL, with_arrivals
from miniinfer.ui.batching.look import ERROR, VERSION, BatchLook, Form, delete_own, form

DRAWN = "batching_requests_drawn"  # whether the view stood there in the last run
BASE = "batching_base"
COLUMN_SETS = {"Requests": USUAL, "More of their samplers": MORE}
ROW = 28  # px
NUMBERS = (
    ("token_budget", "Token budget", 1, "The most slots that a step computes; longer prompts come in chunks."),
    ("max_seqs", "Sequences at once", 1, "The most requests that run at the same time."),
    ("block_size", "Block size", 1, "Positions in one block of the KV cache."),
    ("num_blocks", "Blocks in the pool", 0, "0: as many as the requests can need. Fewer: they wait or are preempted."),
)


def draw_requests(look: BatchLook) -> None:
    filled = form()
    if not st.session_state.get(DRAWN):  # the widgets were gone: they begin anew from what was typed
        st.session_state[VERSION] += 1
        st.session_state[DRAWN] = True
    version = st.session_state[VERSION]
    if st.session_state.get(BASE, (None,))[0] != version:
        st.session_state[BASE] = (version, filled.frame, dict(filled.settings))
    _, base, settings = st.session_state[BASE]
    left, right = st.columns([77, 23], gap="medium")
    with left:
        st.caption(f"{filled.preset.shows} Change what you like and press Run; up to {MAX_REQUESTS} requests.")

        def turn() -> None:
            st.session_state[VERSION] += 1  # the other columns begin from what was typed in these

        chosen = st.segmented_control(
            "Columns", list(COLUMN_SETS), default=next(iter(COLUMN_SETS)), key="batching_columns", required=True,
            on_change=turn, label_visibility="collapsed", persist_state="session",
        )
        filled.frame = st.data_editor(
            base, key=f"batching_rows_{version}", num_rows="dynamic", width="stretch", hide_index=True,
            column_config=_columns(), column_order=COLUMN_SETS[chosen], row_height=ROW,
            height=ROW * (min(MAX_REQUESTS, len(base)) + 2) + 3,
        )
        _draw_arrivals(filled, look)
    with right:
        filled.settings = _settings(settings, version)


def _columns() -> dict[str, Any]:
    number, usual = st.column_config.NumberColumn, SamplingParams()
    return {
        "id": st.column_config.TextColumn("id", width=54, help="A short name that no other request has."),
        "prompt": st.column_config.TextColumn("prompt", width=250),
        "chat": st.column_config.CheckboxColumn("chat", width=48, help="The prompt is a chat message.", default=False),
        "max_new_tokens": number("max new", width=70, min_value=0, step=1, default=16, help="At most so many tokens."),
        "temperature": number("temp.", width=60, default=0.0, help="Temperature; 0 is greedy."),
        "top_p": number("top-p", width=56, default=usual.top_p, help="1 is off."),
        "top_k": number("top-k", width=56, step=1, default=usual.top_k, help="0 is off."),
        "min_p": number("min-p", width=70, default=usual.min_p, help="0 is off."),
        "repetition_penalty": number(
            "repetition penalty", width=130, default=usual.repetition_penalty,
            help="Of the tokens of prompt and output; 1 is off.",
        ),
        "presence_penalty": number(
            "presence penalty", width=122, default=usual.presence_penalty,
            help="Taken once off each token that stands in the output; 0 is off.",
        ),
        "frequency_penalty": number(
            "frequency penalty", width=128, default=usual.frequency_penalty,
            help="Taken off a token as often as it stands in the output; 0 is off.",
        ),
        "stop": st.column_config.ListColumn(
            "stop", width=120, default=[],
            help="Texts that end the output and are no part of it. A line end is written `\\n`, a backslash `\\\\`.",
        ),
        "stop_ids": st.column_config.ListColumn(
            "stop ids", width=80, default=[], help="Token ids that end the output, as the model's own do."
        ),
        "order": st.column_config.MultiselectColumn(
            "order", width=170, options=PROCESSOR_NAMES, default=list(PROCESSOR_NAMES), color=None,
            help="The logits processors, in the order in which they run.",
        ),
        "seed": st.column_config.TextColumn("seed", width=54, default="0"),
        "arrival": number("arrives", width=64, min_value=0, step=1, default=0, help="After so many steps."),
    }


def _draw_arrivals(filled: Form, look: BatchLook) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        gap = st.number_input(
            "Mean gap, steps", 0.0, 1000.0, 3.0, 0.5, key="batching_gap", width=150, persist_state="session",
            help="Arrivals are drawn with exponential gaps; the same seed draws the same.",
        )
        seed = st.number_input("Seed", 0, 2**31, 0, 1, key="batching_arrival_seed", width=120, persist_state="session")

        def draw() -> None:
            try:
                filled.frame = with_arrivals(filled.frame, draw_arrivals(len(filled.frame), gap, int(seed)))
            except MiniInferError as error:
                st.session_state[ERROR] = str(error)
            st.session_state[VERSION] += 1

        st.button("Draw arrivals", key="batching_draw", on_click=draw, help="Fills the column “arrives”.")
        draw_file()
        if filled.own is not None:
            st.button(
                "Delete this set", key="batching_delete", on_click=lambda: delete_own(look.session),
                help=f"“{filled.own}” goes, also from what is saved; “{filled.preset.name}” stands here again.",
            )


def _settings(base: dict[str, Any], version: int) -> dict[str, Any]:
    """Widgets for every field of BatchSettings; what they say."""
    def key(name: str) -> str:
        return f"batching_{name}_{version}"

    batching = st.segmented_control(
        "Batching", ["continuous", "static"], default=base["batching"], key=key("batching"), required=True,
        help="Static: a padded batch that nobody joins or leaves before all of it is done.",
    )
    policy = st.selectbox(
        "Who is served first", list(POLICIES), index=list(POLICIES).index(base["policy"]), key=key("policy"),
        format_func=POLICY_NAMES.__getitem__,
        help="Continuous: who is asked first in each step. Static: who is in the next batch.",
    )
    st.caption(POLICIES[policy])
    paging = st.toggle(
        "Paging", base["paging"], key=key("paging"),
        help="Off: a request takes all the blocks that it can ever need when it starts.",
    )
    sharing = st.toggle(
        "Prefix sharing", base["prefix_caching"], key=key("sharing"), disabled=not paging,
        help="Full blocks with the same beginning are shared, and kept while they are free. It needs paging.",
    )
    found: dict[str, Any] = {
        "batching": batching, "policy": policy, "paging": paging, "prefix_caching": sharing,
    }  # fmt: skip
    columns = st.columns(2)
    for i, (name, label, least, words) in enumerate(NUMBERS):
        found[name] = columns[i % 2].number_input(
            label, least, 4096, int(base[name]), 1, key=key(name), help=words
        )
    return found
