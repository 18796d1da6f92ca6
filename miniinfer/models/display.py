"""How the bytes of a token are written for people."""

from __future__ import annotations

import codecs
import re
import unicodedata

# Controls, line separators, and marks that would turn the direction of what stands beside the text.
_UNRULY = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

_BLANKS = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍", "\x7f": "␡"}


def _spell_bytes(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "".join(f"<{byte:02X}>" for byte in error.object[error.start : error.end]), error.end


codecs.register_error("miniinfer.bytes", _spell_bytes)


def display_bytes(raw: bytes) -> str:
    """Whole characters as they are; bytes that belong to a character split over several tokens as <F0><9F>."""
    return raw.decode("utf-8", errors="miniinfer.bytes")


def tame(name: str) -> str:
    """A name that can stand in a sentence: <U+202E> in place of a mark that would turn the words after it around."""
    return _UNRULY.sub(lambda match: f"<U+{ord(match[0]):04X}>", name)


def visible(text: str) -> str:
    """The text with a sign for each character that would not be seen: ␣ ↵ ⇥ ␍, control pictures, or <U+200B>."""
    return "".join(_visible_character(character) for character in text)


def _visible_character(character: str) -> str:
    if character in _BLANKS:
        return _BLANKS[character]
    if character < " ":
        return chr(0x2400 + ord(character))
    # Separators, controls and format characters (zero width, direction marks) have no shape of their own.
    if unicodedata.category(character) in ("Zs", "Zl", "Zp", "Cc", "Cf"):
        return f"<U+{ord(character):04X}>"
    return character
