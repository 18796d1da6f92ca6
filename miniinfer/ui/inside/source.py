"""The source of the stage that just ran, with its real line numbers and a mark at each line of Python that ran."""

from __future__ import annotations

import streamlit as st

from miniinfer.trace.inside.records import StageLook
from miniinfer.trace.inside.source_lines import SourceText

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
        st.code(numbered(source), language="cpp" if source.compiled else "python", height=230, wrap_lines=True)
        st.caption(_what_is_marked(source, any(s.compiled for s in sources)))


def _what_is_marked(source: SourceText, calls_core: bool) -> str:
    last = source.start + len(source.lines) - 1
    place = f"{source.file}, lines {source.start} to {last}"
    if source.compiled:
        return f"{place}. It ran as compiled code, so no line of it is marked."
    more = " The arithmetic is compiled code, listed above as mi_…" if calls_core else ""
    return f"{place}; {RAN} marks the lines that ran.{more}"


def numbered(source: SourceText) -> str:
    """Each line with its number in the file and a mark if it ran."""
    rows = enumerate(source.lines, source.start)
    return "\n".join(f"{n:>3} {RAN if n in source.ran else NOT_RUN} {line}".rstrip() for n, line in rows)
