"""The source of the stage that just ran, with its real line numbers and a mark at each line that was executed."""

from __future__ import annotations

import streamlit as st

from miniinfer.trace.inside_records import StageLook
from miniinfer.trace.source_lines import SourceText

RAN, NOT_RUN = "▸", " "


def draw_source(stage: StageLook) -> None:
    sources = stage.sources
    names = {i: f"{s.name}   {s.file.split('/', 1)[-1]}:{s.start}" for i, s in enumerate(sources)}
    with st.container(key="inside_source"):
        chosen = st.selectbox(
            "Source that just ran: the stage, and what it called", list(names), format_func=names.__getitem__,
            key=f"inside_source_{stage.name}",
        )
        source = sources[chosen or 0]
        st.code(numbered(source), language="python", height=230, wrap_lines=True)
        last = source.start + len(source.lines) - 1
        st.caption(f"{source.file}, lines {source.start} to {last}; {RAN} marks the lines that ran.")


def numbered(source: SourceText) -> str:
    """Each line with its number in the file and a mark if it ran."""
    rows = enumerate(source.lines, source.start)
    return "\n".join(f"{n:>3} {RAN if n in source.ran else NOT_RUN} {line}".rstrip() for n, line in rows)
