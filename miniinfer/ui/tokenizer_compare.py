"""A second tokenizer on the same text: where both cut, and where they part."""

from __future__ import annotations

import streamlit as st

from miniinfer.errors import BadInputError, MiniInferError
from miniinfer.figures.tokenizer_payload import strip
from miniinfer.figures.tokenizer_tables import side_by_side_table
from miniinfer.models.text import load_tokenizer_file
from miniinfer.models.tokenizer import Tokenizer
from miniinfer.provenance import Provenance
from miniinfer.tokenization.encoding import encode_steps
from miniinfer.tokenization.side_by_side import side_by_side
from miniinfer.ui.mount import mount_tokenizer
from miniinfer.ui.table_twin import draw_table_twin
from miniinfer.ui.tokenizer_look import TextLook


@st.cache_resource(show_spinner=False, max_entries=4)
def _read(path: str, changed: float) -> Tokenizer:
    """changed: when the file was written last, so that a new one is read anew."""
    return load_tokenizer_file(path)[0]


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
    from pathlib import Path

    file = Path(path).expanduser()
    if not file.exists():
        raise BadInputError(f"There is no file or folder {path!r} on this machine.")
    second = _read(path, file.stat().st_mtime)
    text = look.wanted.text
    a = encode_steps(look.tokenizer, text, parse_special=False)
    try:
        b = encode_steps(second, text, parse_special=False)
    except MiniInferError as error:
        raise BadInputError(f"{file.name}: {error}") from error
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
    draw_table_twin(side_by_side_table(stretches), "tokenizer_stretches", Provenance.COMPUTED, "comparison.csv")
