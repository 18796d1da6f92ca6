"""No stranger's page makes this server ask anybody for anything."""

from __future__ import annotations

from streamlit import net_util


def stay_here() -> None:
    """Streamlit holds the origin of a websocket against this machine's addresses as others see them, which it asks a
    server of its own choice for, while everybody waits. The origin of the app's own pages is the name that they asked
    for, so nothing is lost."""
    for name in ("get_external_ip", "get_internal_ip"):
        setattr(net_util, name, _unknown)


def _unknown() -> None:
    return None
