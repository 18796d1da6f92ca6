"""The packaged components, registered once and mounted under fixed keys. Their assets lie in ui/components/."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from miniinfer.ui.bundle import served_files


def _component(name: str) -> Any:
    script, style = served_files(name)
    return st.components.v2.component(f"miniinfer.{name}", js=script, css=style)


_workspace = _component("workspace")
_transport = _component("transport")
_batching = _component("batching")
_program = _component("program")
_figure = _component("figure")
_tokenizer = _component("tokenizer")


def mount_workspace(message: bytes, on_ask: Callable[[], None]) -> None:
    """message: as docs/workspace-message.md describes it. on_ask: `ask_of("workspace")` is what was asked."""
    _workspace(key="workspace", data=message, on_ask_change=on_ask)


def mount_transport(data: dict[str, Any], on_ask: Callable[[], None]) -> None:
    """data: plain JSON of figures/transport.py. on_ask: `ask_of("transport")` is what was asked.

    In a list: in the values of a dict Streamlit looks for tables, and imports pandas for it while the first page waits.
    """
    _transport(key="transport", data=[data], on_ask_change=on_ask)


def mount_batching(message: bytes, on_ask: Callable[[], None]) -> None:
    """message: as docs/batching-message.md describes it. on_ask: `ask_of("batching")` is what was asked."""
    _batching(key="batching", data=message, on_ask_change=on_ask)


def mount_program(data: dict[str, Any], on_ask: Callable[[], None]) -> None:
    """data: plain JSON of figures/inside/map.py. on_ask: `ask_of("program")` is what was asked."""
    _program(key="program", data=data, on_ask_change=on_ask)


def mount_tokenizer(key: str, data: dict[str, Any]) -> None:
    """data: plain JSON of figures/tokenizer/payload.py. It asks for nothing."""
    _tokenizer(key=key, data=data)


def mount_figure(key: str, message: bytes, on_pick: Callable[[], None]) -> None:
    """message: as figures/figure_message.py makes it. on_pick: `picked(key)` is the point that was clicked."""
    _figure(key=key, data=message, on_pick_change=on_pick)


def picked(key: str) -> tuple[Any, Any] | None:
    """(x, y) of the point that was clicked in a figure, in its callback; None for what is no point."""
    point = (st.session_state.get(key) or {}).get("pick")
    return (point.get("x"), point.get("y")) if isinstance(point, dict) else None


def ask_of(component: str) -> Any:
    """What the component asked for, in its callback.

    None if the page changed in the meantime: Streamlit runs the callback, although the component's state has gone.
    The browser asks again on the next page.
    """
    return (st.session_state.get(component) or {}).get("ask")
