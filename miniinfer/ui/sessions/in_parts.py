"""Work of the engine's thread that takes more than a moment: part by part, with a bar, and given up when it must be."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import streamlit as st

from miniinfer.trace.parts import Parts

T = TypeVar("T")
QUICK = 0.4  # seconds: what is over by then shows no bar


def do_in_parts(in_engine: Callable[[Callable[[], Any]], Any], work: Parts[T], words: str) -> T:
    """What `work` returns. It yields the share that is done, from 0 to 1; between two parts other tabs' steps come in.

    in_engine: runs a job in the engine's thread. When the user does something else meanwhile, Streamlit ends this run
    at the bar; whoever calls gives back what the work holds.
    """
    found: list[T] = []

    def part() -> float | None:
        try:
            return next(work)
        except StopIteration as end:
            found.append(end.value)
            return None

    begin, place = time.monotonic(), None
    try:
        while (share := in_engine(part)) is not None:
            if place is None and time.monotonic() - begin > QUICK:
                place = st.empty()
            if place is not None:
                place.progress(min(1.0, share), words)
    finally:
        if place is not None:
            place.empty()
    return found[0]
