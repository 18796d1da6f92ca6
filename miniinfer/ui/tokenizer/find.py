"""Any token of the vocabulary: by id, by text, by bytes, and the merges that make it."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from miniinfer.figures.tokenizer.tables import found_table
from miniinfer.models.display import visible
from miniinfer.provenance import Provenance
from miniinfer.tokenization.vocabulary_search import asked_ids, derivation, describe_tokens, find_tokens, is_id
from miniinfer.ui.room import room
from miniinfer.ui.table_twin import draw_table_twin, opened_fold
from miniinfer.ui.tokenizer.look import TextLook

MOST = 200
HINTS = {"text": "for example: capital", "id": "for example: 504, or 1 2 49151", "bytes": "for example: F0 9F"}


def draw_find(look: TextLook) -> None:
    """Without a search, the tokens of the page's text."""
    left, right = st.columns([3, 8], vertical_alignment="bottom")
    by = left.segmented_control(
        "Look up by", list(HINTS), default="text", key="tokenizer_by", required=True, width="stretch",
        persist_state="session",
    ) or "text"  # fmt: skip
    query = right.text_input(
        f"Search all {look.tokenizer.vocab_size:,} tokens", key=f"tokenizer_query_{by}", persist_state="session",
        placeholder=HINTS[by],
    )
    if query:
        ids = find_tokens(look.tokenizer, query, by)
        more = f"; the first {MOST} stand here" if len(ids) > MOST else ""
        fits = "1 token fits" if len(ids) == 1 else f"{len(ids):,} tokens fit"
        st.caption(f"{fits}{more}.{_no_ids(look, query) if by == 'id' else ''}" if ids else _nothing(look, by))
    else:
        ids = list(dict.fromkeys(look.encoding.ids))
        st.caption("The tokens of the text at the left. Choose a row to see how merges make it.")
    shown = ids[:MOST]
    frame = found_table(describe_tokens(look.tokenizer, shown), look.text)
    picked = st.dataframe(
        frame, key="tokenizer_found_rows", hide_index=True, on_select="rerun", selection_mode="single-row",
        row_height=28, height=320 + room() if len(shown) > 10 else "content", width="stretch", placeholder="",
        column_config={"id": st.column_config.NumberColumn(format="%d")},
    )
    rows = picked["selection"]["rows"]
    chosen = shown[rows[0]] if rows and rows[0] < len(shown) else (shown[0] if shown else None)
    if chosen is not None:
        _derivation(look, chosen)
    if (folded := opened_fold("Table as CSV", "tokenizer_found_fold")) is not None:
        with folded:
            draw_table_twin(frame, "tokenizer_found", Provenance.COMPUTED, "tokens.csv")


def _derivation(look: TextLook, token_id: int) -> None:
    steps = derivation(look.tokenizer, token_id)
    st.text(f"How do merges make “{look.text(token_id)}”, id {token_id}?")
    if not steps:
        st.caption("No merge makes it: it is a single byte, a control token, or an id that the text never leads to.")
        return
    table = pd.DataFrame(
        [(rank, visible(left), visible(right), visible(result)) for rank, left, right, result in steps],
        columns=["rank", "left", "right", "becomes"],
    )
    st.dataframe(table, key="tokenizer_derivation", hide_index=True, width="stretch", row_height=28)


def _no_ids(look: TextLook, query: str) -> str:
    """Which of the numbers that were asked for are no ids, if there are any."""
    size = look.tokenizer.vocab_size
    wrong = [word for word in asked_ids(query) if not is_id(word, size)]
    named = " and no ".join(word if len(word) < 12 else word[:11] + "…" for word in wrong[:3])
    return f" Ids run from 0 to {size - 1:,}: there is no {named}." if wrong else ""


def _nothing(look: TextLook, by: str) -> str:
    return {
        "text": "No token holds this text; a longer text is several tokens.",
        "id": f"No token has such an id: they run from 0 to {look.tokenizer.vocab_size - 1:,}.",
        "bytes": "No token holds these bytes. Write them in pairs, as F0 9F, <F0><9F> or 0xF0 0x9F.",
    }[by]
