"""The text of an output as it comes: whole characters only, and nothing of a stop string or stop token."""

from __future__ import annotations

from collections.abc import Sequence

from miniinfer.models.detokenizer import Detokenizer


class OutputText:
    """Collects tokens; `push` and `finish` return what can be shown now, and `text` is all of it so far.

    Text that may be the beginning of a stop string is held back until it is clear that it is none.
    """

    def __init__(self, token_bytes: Sequence[bytes], stop: Sequence[str]) -> None:
        self._detokenizer = Detokenizer(token_bytes)
        self._stop = tuple(stop)
        self._seen = ""
        self._shown = 0

    def push(self, token_id: int) -> str:
        """Take the next token. The token that ended the output by its id is not to be pushed."""
        self._seen += self._detokenizer.push(token_id)
        return self._show(max(self._shown, self._end() - self._held_back()))

    def finish(self) -> str:
        """The rest, at the end of the output."""
        self._seen += self._detokenizer.flush()
        return self._show(self._end())

    @property
    def text(self) -> str:
        return self._seen[: self._shown]

    def _show(self, end: int) -> str:
        new = self._seen[self._shown : end]
        self._shown = end
        return new

    def _end(self) -> int:
        """Where the first stop string begins, or the end of what was seen."""
        places = [place for stop in self._stop if (place := self._seen.find(stop)) >= 0]
        return min(places, default=len(self._seen))

    def _held_back(self) -> int:
        """Length of the longest end of the text that is the beginning of a stop string."""
        seen = self._seen[: self._end()]
        for length in range(min(len(seen), max(map(len, self._stop), default=0)), 0, -1):
            if any(stop.startswith(seen[-length:]) for stop in self._stop):
                return length
        return 0
