"""The tokenizer page's tables. Texts are cells, with every character visible; the bytes beside them are exact."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import islice

import pandas as pd

from miniinfer.tokenization.characters import CharacterPlace
from miniinfer.tokenization.costs import TextCost
from miniinfer.tokenization.encoding import Encoding
from miniinfer.tokenization.pre_tokenizer import RULES
from miniinfer.tokenization.segments import SegmentPlace, writers_of
from miniinfer.tokenization.side_by_side import Boundary
from miniinfer.tokenization.vocabulary_search import FoundToken

MOST_ROWS = 20_000  # of a table on the page; what is saved has all (most=None)


def hex_bytes(raw: bytes) -> str:
    return raw.hex(" ").upper()


def tokens_table(
    encoding: Encoding, segments: Sequence[SegmentPlace], most: int | None = MOST_ROWS
) -> pd.DataFrame:
    """One row a token."""
    tokens = encoding.tokens[:most]
    return pd.DataFrame(
        [
            (i, t.token_id, t.shown, hex_bytes(t.raw), t.start, t.end, t.piece, writer, _kind(t.control, t.split))
            for i, (t, writer) in enumerate(zip(tokens, writers_of(tokens, segments), strict=True))
        ],
        columns=["position", "id", "token", "bytes", "from byte", "to byte", "piece", "written by", "kind"],
    )


def pieces_table(encoding: Encoding, most: int | None = MOST_ROWS) -> pd.DataFrame:
    """One row a piece of the pre-tokenizer."""
    return pd.DataFrame(
        [
            (
                i, p.shown, RULES[p.rule], hex_bytes(p.text.encode()), p.symbols, len(p.merging.steps),
                " ".join(p.parts), " ".join(map(str, p.ids)),
            )
            for i, p in enumerate(encoding.pieces[:most])
        ],
        columns=["piece", "text", "rule", "bytes", "byte alphabet", "merges", "tokens", "ids"],
    )  # fmt: skip


def merges_table(encoding: Encoding, most: int | None = MOST_ROWS) -> pd.DataFrame:
    """One row a merge, of all pieces in order, in the byte alphabet."""
    rows = (
        (i, n, step.left, step.right, step.left + step.right, step.rank, step.at)
        for i, piece in enumerate(encoding.pieces)
        for n, step in enumerate(piece.merging.steps, start=1)
    )
    return pd.DataFrame(
        list(islice(rows, most)),
        columns=["piece", "merge", "left", "right", "becomes", "rank", "at byte of the piece"],
    )


def characters_table(characters: Sequence[CharacterPlace], most: int | None = MOST_ROWS) -> pd.DataFrame:
    """One row a code point."""
    return pd.DataFrame(
        [
            (
                i, c.shown, f"U+{ord(c.character):04X}", c.name, c.kind, hex_bytes(c.raw), len(c.raw),
                " ".join(map(str, c.tokens)), "split" if c.split else "",
            )
            for i, c in enumerate(characters[:most])
        ],
        columns=["character", "sign", "code point", "name", "kind", "bytes", "size", "in tokens", "over tokens"],
    )  # fmt: skip


def segments_table(encoding: Encoding, segments: Sequence[SegmentPlace]) -> pd.DataFrame:
    """One row for each change of the writer."""
    tokens = encoding.tokens
    starts, ends = [t.start for t in tokens], [t.end for t in tokens]
    inside = [tokens[bisect_right(ends, s.start) : bisect_left(starts, s.end)] for s in segments]
    return pd.DataFrame(
        [
            (i, s.writer, s.shown, len(found), " ".join(str(t.token_id) for t in found))
            for i, (s, found) in enumerate(zip(segments, inside, strict=True))
        ],
        columns=["segment", "written by", "text", "tokens", "ids"],
    )


def costs_table(costs: Sequence[TextCost]) -> pd.DataFrame:
    """One row a text."""
    return pd.DataFrame(
        [
            (c.name, c.tokens, c.characters, c.bytes, c.per_byte, c.per_character, c.text)
            for c in costs
        ],
        columns=["language", "tokens", "characters", "bytes", "tokens per byte", "tokens per character", "text"],
    )  # fmt: skip


def found_table(found: Sequence[FoundToken], text: Callable[[int], str]) -> pd.DataFrame:
    """One row a token of the vocabulary. text: the visible text of an id."""
    return pd.DataFrame(
        [
            (
                f.token_id, text(f.token_id), hex_bytes(f.raw), len(f.raw), f.kind,
                "" if f.made_of is None else f"{f.made_of[0]} + {f.made_of[1]}", f.rank,
            )
            for f in found
        ],
        columns=["id", "token", "bytes", "size", "kind", "merged from", "rank"],
    )  # fmt: skip


def side_by_side_table(boundaries: Sequence[Boundary], most: int | None = MOST_ROWS) -> pd.DataFrame:
    """One row for each stretch of the text that both tokenizers end a token after."""
    return pd.DataFrame(
        [
            (b.start, b.end, " | ".join(b.a), " ".join(map(str, b.a_ids)), " | ".join(b.b), " ".join(map(str, b.b_ids)),
             "=" if b.same else "≠")
            for b in boundaries[:most]
        ],
        columns=["from byte", "to byte", "tokens A", "ids A", "tokens B", "ids B", "same cut"],
    )  # fmt: skip


def _kind(control: bool, split: bool) -> str:
    return "control token" if control else "part of a character" if split else ""
