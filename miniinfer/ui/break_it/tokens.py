"""Two outputs token by token, in two columns, with what differs marked. Texts are escaped: tokens are no markup."""

from __future__ import annotations

import html
from collections.abc import Iterator

import streamlit as st

from miniinfer.figures.break_it.plots import broken_colour
from miniinfer.figures.palette import Palette
from miniinfer.figures.sampling.words import percent
from miniinfer.models.display import visible
from miniinfer.trace.lockstep import LockstepRecord, SideRecord
from miniinfer.trace.records import TokenInfo

ENDS = {
    "stop": "ended by itself", "length": "as many tokens as asked for", "context": "the context is full",
    "abort": "aborted",
}  # fmt: skip
AT_START, AT_END = 4, 8  # tokens of a longer prompt that are shown: how it begins, and what both go on from


def draw_tokens(record: LockstepRecord, colours: Palette, second: str) -> None:
    """Hovering over a token says its place, its id and what the model assigned.

    second: what the other side is called.
    """
    for column, name, side, other in zip(
        st.columns(2, gap="medium"), ("Healthy", "Broken"), (record.a, record.b), (record.b, record.a), strict=True
    ):
        with column, st.container(key=f"break_{name.lower()}"):
            st.markdown(f"**{name if name == 'Healthy' else second.capitalize()}**")
            mark = colours.probability if name == "Healthy" else broken_colour(colours)
            st.html(f'<div class="break-tokens" style="--mark: {mark}">{"".join(_spans(side, other))}</div>')
            end = ENDS.get(side.finish_reason or "", "")
            st.caption(f"{len(side.prompt)} prompt and {len(side.outputs)} output tokens; {end}.")
            if side.error:
                st.text(side.error)


def _spans(side: SideRecord, other: SideRecord) -> Iterator[str]:
    left_out = len(side.prompt) - AT_START - AT_END
    for position, token in enumerate(side.prompt):
        if left_out <= 1 or not AT_START <= position < AT_START + left_out:
            yield _span(token, "prompt", f"position {position}, id {token.token_id}, prompt")
        elif position == AT_START:
            yield f" <i>… {left_out} tokens …</i> "
    theirs = other.output_tokens
    for index, (token, found) in enumerate(zip(side.output_tokens, side.outputs, strict=True)):
        same = index < len(theirs) and theirs[index].token_id == token.token_id
        raw = next(p for t, p in zip(found.tokens, found.raw_probs, strict=True) if t.token_id == token.token_id)
        words = f"output token {index + 1}, id {token.token_id}, the model assigned {percent(raw)}"
        yield _span(token, "same" if same else "differs", words)


def _span(token: TokenInfo, kind: str, words: str) -> str:
    return f'<span class="{kind}" title="{html.escape(words)}">{html.escape(visible(token.text))}</span>'
