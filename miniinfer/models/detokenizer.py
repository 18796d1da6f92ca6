"""Text from tokens as they come, never half a character.

One character may be spread over several tokens, so bytes are collected until they make whole characters. Bytes that can
no longer become a character turn into U+FFFD at once and do not hold back what follows.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class Detokenizer:
    """The state of one stream. All its pieces joined equal the decoding of all its tokens at once."""

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_id: int) -> str:
        """The text that this token completes; empty while a character is unfinished."""
        return self._decoder.decode(self._token_bytes[token_id])

    def flush(self) -> str:
        """What is left at the end of the stream: an unfinished character becomes one U+FFFD."""
        return self._decoder.decode(b"", final=True)
