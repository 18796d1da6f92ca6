"""A run file from anywhere, and the recorded runs that come with the project: opened without the model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from miniinfer.errors import MiniInferError
from miniinfer.trace.files.format import MOST_FILE_BYTES, load_trace, read_trace
from miniinfer.ui.sessions.memory import EXAMPLES_FOLDER
from miniinfer.ui.sessions.session import Session

MOST_NAME = 60


@dataclass(frozen=True)
class ExampleRun:
    """A recorded run of the project. about: what to look at in it."""

    file: str
    title: str
    about: str

    @property
    def path(self) -> Path:
        return EXAMPLES_FOLDER / self.file


EXAMPLE_RUNS = (
    ExampleRun("france.npz", "A fact", "“The capital of France is”: one token has most of the probability at once."),
    ExampleRun(
        "copy.npz", "A list that repeats",
        "Layer 17, head 5 reads what followed the last time, as an induction head does; then greedy decoding "
        "(temperature 0) falls into a loop.",
    ),
    ExampleRun(
        "detour.npz", "A forced token",
        "A story whose first draw was overruled (violet) with “ dragon”: the coins stay, everything after is another "
        "story.",
    ),
)


def draw_import(session: Session) -> None:
    """Check and open a file that the reader chose. What is wrong with it is one sentence, and nothing else changes."""
    with st.form("runs_import", clear_on_submit=True, border=False):
        file = st.file_uploader(
            "Open a run file", type=["npz"], key="runs_import_file", max_upload_size=MOST_FILE_BYTES // 2**20,
            help="One that was saved here or by `miniinfer recording`. Nothing in it is executed.",
        )
        pressed = st.form_submit_button("Open the file")
    if not pressed:
        return
    if file is None:
        st.text("Choose a file first.")
        return
    try:
        session.add_recording(read_trace(file.getvalue(), shown_name(file.name)))
    except MiniInferError as error:
        with st.container(key="runs_import_error"):
            st.text(str(error))
        return
    st.switch_page("pages/workspace.py")


def draw_examples(session: Session) -> None:
    st.caption("Recorded runs of the real model that come with the project. They open without it.")
    for example in EXAMPLE_RUNS:
        left, right = st.columns([3, 7], vertical_alignment="center")
        right.caption(example.about)
        if not left.button(example.title, key=f"runs_open_{example.path.stem}", width="stretch"):
            continue
        try:
            session.add_recording(load_trace(example.path))
        except MiniInferError as error:
            st.text(str(error))
        else:
            st.switch_page("pages/workspace.py")


def shown_name(name: str) -> str:
    """A file's name as a sentence can hold it: one line, not too long, nothing that turns the text around."""
    plain = "".join(letter if letter.isprintable() else "�" for letter in name)
    return plain if len(plain) <= MOST_NAME else plain[: MOST_NAME - 1] + "…"
