"""Requests as a file, out and in: the one that the command `batch` reads."""

from __future__ import annotations

import streamlit as st

from miniinfer.errors import BadInputError, MiniInferError
from miniinfer.trace.batch.file import parse_requests, requests_to_lines
from miniinfer.ui.batching.form import MAX_REQUESTS, frame_of, requests_of
from miniinfer.ui.batching.look import VERSION, form

NAME = "requests.jsonl"
MOST_MB = 4
SAID = "batching_file_said"


def draw_file() -> None:
    """A popover. What is wrong with a file is one sentence, and the form stays as it is."""
    with st.popover("As a file", key="batching_file", help="Requests out and in, as JSON Lines."):
        filled = form()
        try:
            requests, refused = requests_of(filled.frame)
        except MiniInferError as error:
            requests, refused = [], [str(error)]
        st.download_button(
            "Save these requests", requests_to_lines(requests), file_name=NAME, mime="application/jsonl",
            key="batching_file_save", disabled=not requests, on_click="ignore",
            help=f"One JSON object a line; `python3 -m miniinfer batch {NAME}` runs the same requests.",
        )
        if refused:
            st.text("\n".join(refused))
        st.file_uploader(
            "Open a file of requests", type=["jsonl", "json", "txt"], key="batching_file_open", on_change=_open,
            max_upload_size=MOST_MB, help="They stand in the table in place of those that are there; Run starts them.",
        )
        if said := st.session_state.pop(SAID, None):
            st.text(said)


def _open() -> None:
    file = st.session_state["batching_file_open"]
    if file is None:
        return
    try:
        requests = parse_requests(file.getvalue(), file.name).requests
        if len(requests) > MAX_REQUESTS:
            raise BadInputError(f"{file.name} has {len(requests)} requests; the page has room for {MAX_REQUESTS}.")
    except MiniInferError as error:
        st.session_state[SAID] = str(error)
        return
    form().frame = frame_of(requests)
    st.session_state[VERSION] += 1
