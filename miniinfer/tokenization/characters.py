"""The characters of a text beside its tokens: which bytes each takes, and which tokens those bytes fell to."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from miniinfer.models.display import visible
from miniinfer.tokenization.encoding import TokenPlace

KINDS = {
    "L": "letter", "M": "mark on the one before", "N": "number", "P": "punctuation", "S": "sign", "Z": "blank",
    "Cc": "control", "Cf": "format, invisible", "Co": "private", "Cn": "not known to this Python",
}  # fmt: skip


@dataclass(frozen=True)
class CharacterPlace:
    """One code point. start: byte offset of its first byte; raw: its UTF-8 bytes; tokens: positions of the tokens that
    hold them."""

    character: str
    start: int
    raw: bytes
    tokens: tuple[int, ...]

    @property
    def split(self) -> bool:
        """No token holds all of its bytes."""
        return len(self.tokens) > 1

    @property
    def shown(self) -> str:
        return visible(self.character)

    @property
    def name(self) -> str:
        return unicodedata.name(self.character, "") or CONTROL_NAMES.get(self.character, "")

    @property
    def kind(self) -> str:
        category = unicodedata.category(self.character)
        return KINDS.get(category) or KINDS.get(category[0], category)


CONTROL_NAMES = {
    "\t": "CHARACTER TABULATION", "\n": "LINE FEED", "\r": "CARRIAGE RETURN", "\0": "NULL", "\x1b": "ESCAPE",
    "\x0b": "LINE TABULATION", "\x0c": "FORM FEED", "\x08": "BACKSPACE", "\x7f": "DELETE", "\x85": "NEXT LINE",
}  # fmt: skip


def characters_of(text: str, tokens: Sequence[TokenPlace]) -> list[CharacterPlace]:
    """Every character of the text whose tokens these are."""
    found: list[CharacterPlace] = []
    start = first = 0
    for character in text:
        raw = character.encode()
        end = start + len(raw)
        while first < len(tokens) and tokens[first].end <= start:
            first += 1
        last = first
        while last < len(tokens) and tokens[last].start < end:
            last += 1
        found.append(CharacterPlace(character, start, raw, tuple(range(first, last))))
        start = end
    return found
