"""A second tokenizer on the same text: where both cut, and where they part."""

from __future__ import annotations

import os
import reprlib
from pathlib import Path

import streamlit as st

from miniinfer.errors import BadInputError, MiniInferError
from miniinfer.figures.tokenizer.payload import strip
from miniinfer.figures.tokenizer.tables import side_by_side_table
from miniinfer.models.registry import existing_path
from miniinfer.models.text import load_tokenizer_file
from miniinfer.models.tokenizer import Tokenizer
from miniinfer.tokenization.encoding import Encoding, encode_steps
from miniinfer.tokenization.side_by_side import side_by_side
from miniinfer.ui.mount import mount_tokenizer
from miniinfer.ui.tokenizer.look import TextLook, draw_rows, remembered

FILES = ("tokenizer.json", "tokenizer_config.json", "config.json", "generation_config.json")  # read of a folder


@st.cache_resource(show_spinner=False, max_entries=4)
def _read(path: str, changed: float) -> Tokenizer:
    """changed: when the file was written last, so that a new one is read anew."""
    return load_tokenizer_file(path)[0]


def _changed(file: Path) -> float:
    """When the file, or any that is read with it, was written last: a folder's own time tells nothing of its files."""
    folder = file if file.is_dir() else file.parent
    read = (file, *(folder / name for name in FILES))
    return max(os.path.getmtime(path) for path in read if os.path.exists(path))


def _both(tokenizer: Tokenizer, second: Tokenizer, text: str, name: str) -> tuple[Encoding, Encoding]:
    """What each makes of the text. Raises BadInputError, with the file's name if it is the second that cannot."""
    a = encode_steps(tokenizer, text, parse_special=False)
    try:
        return a, encode_steps(second, text, parse_special=False)
    except MiniInferError as error:
        raise BadInputError(f"{name}: {error}") from error


def draw_compare(look: TextLook) -> None:
    """The text itself, without a chat template, and with control tokens as text: those are each model's own."""
    if not look.session.host.hosting.local_paths:
        st.text(
            "A second tokenizer is read from a file of the machine that the app runs on, which others may not name on "
            "this server. In an app of your own, both cuts of the text stand here, one above the other."
        )
        return
    path = st.text_input(
        "The second tokenizer's file", key="tokenizer_second", persist_state="session",
        placeholder="path of a tokenizer.json, a GGUF file or a Hugging Face folder on this machine",
    ).strip()
    if not path:
        st.text(
            "Both cuts of the text will stand here, one above the other: name a tokenizer.json, a GGUF file or a "
            "Hugging Face folder. What MiniInfer cannot follow to the letter is refused, with the reason."
        )
        return
    file = existing_path(path)
    if file is None:
        raise BadInputError(f"There is no file or folder {reprlib.repr(path)} on this machine.")
    second, text = _read(str(file), _changed(file)), look.wanted.text
    a, b = remembered(
        "compare", second, (look.side.name, text), lambda: _both(look.tokenizer, second, text, file.name)
    )
    typed = ["typed"] * max(len(a.tokens), len(b.tokens))
    mount_tokenizer("tokenizer_compare", {
        "stages": [], "pieces": [],
        "strips": [
            strip(a, typed, look.side.name, f"{len(a.tokens):,} tokens of {look.tokenizer.vocab_size:,} ids"),
            strip(b, typed, file.name, f"{len(b.tokens):,} tokens of {second.vocab_size:,} ids"),
        ],
    })  # fmt: skip
    stretches = side_by_side(a.tokens, b.tokens)
    same = sum(stretch.same for stretch in stretches)
    first = next((s for s in stretches if not s.same), None)
    st.text(
        f"{same:,} of {len(stretches):,} stretches are one token in both. "
        + ("Both cut alike." if first is None else f"They part first at byte {first.start}. ")
        + "The same bytes are lit in both while the pointer is on a token."
    )
    draw_rows(
        lambda most: side_by_side_table(stretches, most), len(stretches), "tokenizer_stretches", "comparison.csv"
    )
