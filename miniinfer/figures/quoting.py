"""Token texts in the middle of sentences and labels."""

from __future__ import annotations

import unicodedata


def quoted(text: str) -> str:
    """In quotation marks, and isolated, for a sentence."""
    return f"“{isolated(text)}”"


def isolated(text: str) -> str:
    """Between the marks FSI and PDI if any of it is written from right to left, so that it does not turn the numbers
    and words beside it around; else as it is."""
    turns = any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in text)
    return f"\u2068{text}\u2069" if turns else text
