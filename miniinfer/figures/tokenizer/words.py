"""The tokenizer page's sentences."""

from __future__ import annotations

import unicodedata

from miniinfer.tokenization.encoding import Encoding

NO_NORMALISATION = "none"


def summary(encoding: Encoding) -> str:
    """The text's size in one line."""
    tokens, size, characters = len(encoding.tokens), len(encoding.raw), len(encoding.text)
    split = sum(token.split for token in encoding.tokens)
    parts = [_count(tokens, "token"), _count(characters, "character"), _count(size, "byte")]
    if split:
        parts.append(f"{split:,} of the tokens a part of a character only")
    return ", ".join(parts)


def notes(text: str) -> list[str]:
    """What in this text often surprises, a sentence each."""
    found = []
    if text.endswith(" "):
        found.append(
            "The text ends in a space, which becomes a token of its own: words carry their space in front, so the "
            "model now expects something that begins without one."
        )
    if "\r" in text:
        found.append("Line ends are not made equal: \\r\\n and \\n give other ids.")
    if unicodedata.normalize("NFC", text) != text:
        found.append(
            "Composed (Unicode's NFC) this text would have other characters, and so other ids. The tokenizer's file "
            "asks for no normalisation, so it goes in as it is."
        )
    if any(unicodedata.category(character) == "Cf" for character in text):
        found.append("There are invisible characters in it: they have bytes and cost tokens like any others.")
    return found


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
