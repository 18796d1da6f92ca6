"""The hosting of this process: read once, asked by everything that differs when others can reach the app."""

from __future__ import annotations

import functools
import os

from miniinfer.hosting import Hosting


@functools.cache
def get_hosting() -> Hosting:
    """Raises BadInputError if the environment says something that `run` did not write."""
    return Hosting.of(os.environ)


__all__ = ["Hosting", "get_hosting"]
