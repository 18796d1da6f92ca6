"""The hosting of this process: read once, asked by everything that differs when others can reach the app."""

from __future__ import annotations

import functools
import os

import streamlit as st

from miniinfer.hosting import Hosting

LOOPBACK = ("127.0.0.1", "localhost", "::1")
HOW = "Start it with `python3 -m miniinfer run --host ADDRESS --allow-host NAME`, which asks for a pass phrase."

_gate = False


@functools.cache
def get_hosting() -> Hosting:
    """Raises BadInputError if the environment says something that `run` did not write."""
    return Hosting.of(os.environ)


def gate_stands() -> None:
    """The guard (hosting/gate.py) has been put in front of this process's app."""
    global _gate
    _gate = True


def why_closed() -> str | None:
    """A sentence if this app must not be drawn: others could reach it, and nothing would ask them for a pass phrase."""
    if get_hosting().guarded:
        return None if _gate else f"This app is to be guarded, and its guard is missing. {HOW}"
    if st.get_option("server.address") not in LOOPBACK:
        return f"Others can reach this address, and the app has no login here. {HOW}"
    return None


__all__ = ["Hosting", "get_hosting", "why_closed"]
