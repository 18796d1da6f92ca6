r"""Characters that a text field cannot hold or show, written as escapes: \r \n \t \0 \\ \xHH \uHHHH \UHHHHHHHH.

A text field turns every line end into a single line feed, so a carriage return can only be typed this way.
"""

from __future__ import annotations

import re

ESCAPE = re.compile(r"\\(?:([nrt0\\])|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))")
SINGLE = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "\\": "\\"}


def unescape(text: str) -> str:
    """The text with its escapes turned into the characters that they name; what is no escape stays as it is."""

    def character(found: re.Match[str]) -> str:
        letter, *numbers = found.groups()
        if letter:
            return SINGLE[letter]
        code = int(next(filter(None, numbers)), 16)
        return chr(code) if code <= 0x10FFFF else found.group()

    return ESCAPE.sub(character, text)


def escape(text: str) -> str:
    """A text that `unescape` turns into this one, with escapes for all that has no shape of its own."""
    return "".join(_escaped(character) for character in text)


def _escaped(character: str) -> str:
    for letter, meant in SINGLE.items():
        if character == meant:
            return "\\" + letter
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
