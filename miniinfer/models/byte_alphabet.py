"""The alphabet in which byte-level vocabularies are written: one printable character for each of the 256 bytes.

Bytes that are printable in Latin-1 stand for themselves, the other 68 are given the characters from U+0100 on, in order
of the byte. So a space is written U+0120 and a token is always a string without blanks.
"""

from __future__ import annotations

_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]

BYTE_OF = {chr(byte): byte for byte in _PRINTABLE} | {chr(0x100 + n): byte for n, byte in enumerate(_OTHERS)}
CHARACTER_OF = {byte: character for character, byte in BYTE_OF.items()}


def to_bytes(token: str) -> bytes:
    """The bytes that a token written in the alphabet stands for. Raises KeyError for other characters."""
    return bytes(BYTE_OF[character] for character in token)
