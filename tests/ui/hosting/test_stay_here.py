"""A page from elsewhere that opens a websocket is refused without anybody being asked who this machine is."""

from __future__ import annotations

import socket

import pytest
import requests
from streamlit import net_util
from streamlit.web.server.server_util import is_url_from_allowed_origins

from miniinfer.ui.hosting.stay_here import stay_here


def test_no_foreign_origin_makes_the_server_look_itself_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    for name in ("get_external_ip", "get_internal_ip"):
        monkeypatch.setattr(net_util, name, getattr(net_util, name))  # put back afterwards
    monkeypatch.setattr(requests, "get", lambda url, **_: asked.append(url))
    monkeypatch.setattr(socket.socket, "connect", lambda self, address: asked.append(str(address)))
    stay_here()
    assert not is_url_from_allowed_origins("http://elsewhere.example:8501")
    assert is_url_from_allowed_origins("http://localhost:8501")
    assert asked == []
