"""What the same sentence costs in other languages."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.tokenizer.plots import costs_figure
from miniinfer.figures.tokenizer.tables import costs_table
from miniinfer.provenance import Provenance
from miniinfer.tokenization.costs import SAMPLES, costs_of
from miniinfer.ui.figure import draw_figure
from miniinfer.ui.table_twin import draw_table_twin, opened_fold
from miniinfer.ui.tokenizer.look import TextLook

YOURS = "your text"
RATIO = st.column_config.NumberColumn(format="%.3f")


def draw_costs(look: TextLook) -> None:
    """Sixteen sentences of one meaning, and the text of the page beside them; chat and control tokens left out."""
    texts = [*SAMPLES.items(), *([(YOURS, look.wanted.text)] if look.wanted.text else [])]
    costs, refusals = costs_of(look.tokenizer, texts)
    same = [cost for cost in costs if cost.name in SAMPLES]
    st.markdown("**What does one sentence cost in other languages?**")
    if same:
        st.text(
            f"The same sentence takes {same[0].tokens} tokens in {same[0].name} and {same[-1].tokens} in "
            f"{same[-1].name}: {same[-1].tokens / same[0].tokens:.1f} times as many steps, and as much of the KV cache "
            "and of the context. Merges are learned from texts: what was common there costs little here."
        )
    draw_figure(
        costs_figure(costs, YOURS, look.colours), "tokenizer_costs_figure",
        "Tokens of the same sentence in sixteen languages, and of the text of this page", name="languages",
    )
    for refusal in refusals:
        st.text(refusal)
    if (folded := opened_fold("Table: bytes, characters, tokens of each sentence", "tokenizer_costs_fold")) is not None:
        with folded:
            draw_table_twin(costs_table(costs), "tokenizer_costs", Provenance.COMPUTED, "languages.csv")
