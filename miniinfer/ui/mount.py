"""The two packaged components, registered once and mounted under fixed keys. Their assets lie in ui/components/."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

_workspace = st.components.v2.component(
    "miniinfer.workspace", js="workspace/main.js", css="workspace/workspace.css"
)
_transport = st.components.v2.component(
    "miniinfer.transport", js="transport/main.js", css="transport/transport.css"
)


def mount_workspace(message: bytes, on_ask: Callable[[], None]) -> None:
    """message: as docs/workspace-message.md describes it. on_ask: read st.session_state["workspace"]["ask"] in it."""
    _workspace(key="workspace", data=message, on_ask_change=on_ask)


def mount_transport(data: dict[str, Any], on_ask: Callable[[], None]) -> None:
    """data: plain JSON of figures/transport.py. on_ask: read st.session_state["transport"]["ask"] in it."""
    _transport(key="transport", data=data, on_ask_change=on_ask)
