"""Who wrote which part of the prompt: control tokens, the chat template, the user."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from miniinfer.models.display import visible
from miniinfer.tokenization.encoding import Encoding, TokenPlace

Writer = Literal["control", "template", "typed"]
MIXED = "template and typed"  # of a token that reaches from one into the other


@dataclass(frozen=True)
class SegmentPlace:
    """start, end: byte offsets in the whole text."""

    text: str
    start: int
    end: int
    writer: Writer

    @property
    def shown(self) -> str:
        return visible(self.text)


def segments_of(encoding: Encoding, typed: tuple[int, int] | None) -> list[SegmentPlace]:
    """The text in order, cut where the writer changes. typed: byte offsets of what the user wrote; the rest of the
    plain text is the template's. A control token is one however it got there."""
    low, high = typed or (0, 0)
    found: list[SegmentPlace] = []
    for part in encoding.parts:
        raw = part.text.encode()
        if part.kind == "control":
            found.append(SegmentPlace(part.text, part.start, part.start + len(raw), "control"))
            continue
        stop = part.start + len(raw)
        edges = sorted({part.start, stop, *(edge for edge in (low, high) if part.start < edge < stop)})
        for start, end in itertools.pairwise(edges):
            text = raw[start - part.start : end - part.start].decode()
            writer: Writer = "typed" if low <= start and end <= high else "template"
            if found and found[-1].writer == writer:  # two parts, around a token that is no control token
                before = found.pop()
                text, start = before.text + text, before.start
            found.append(SegmentPlace(text, start, end, writer))
    return found


def writers_of(tokens: Sequence[TokenPlace], segments: Sequence[SegmentPlace]) -> list[str]:
    """For each token the writer of its bytes, or MIXED."""
    writers: list[str] = []
    first = 0
    for token in tokens:
        while first < len(segments) and segments[first].end <= token.start:
            first += 1
        inside = {s.writer for s in segments[first : first + 3] if s.start < token.end and token.start < s.end}
        writers.append(inside.pop() if len(inside) == 1 else MIXED)
    return writers
