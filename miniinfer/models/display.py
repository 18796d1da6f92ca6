"""How the bytes of a token are written for people."""

from __future__ import annotations

import codecs
import unicodedata

_BLANKS = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍", "\x7f": "␡"}


def _spell_bytes(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "".join(f"<{byte:02X}>" for byte in error.object[error.start : error.end]), error.end


codecs.register_error("miniinfer.bytes", _spell_bytes)


def display_bytes(raw: bytes) -> str:
    """Whole characters as they are; bytes that belong to a character split over several tokens as <F0><9F>."""
    return raw.decode("utf-8", errors="miniinfer.bytes")


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
