"""How many threads a product uses, and how they wait. Set before torch is imported; this file imports it last."""

from __future__ import annotations

import os

ENVIRONMENT: dict[str, str] = {}


def configure() -> None:
    """Set what OpenMP reads once, when torch is imported; settings that the user has made stay as they are."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
