"""What the tokenizer component draws: strips of tokens, and the merges of each piece. Plain JSON.

strips: [{title, fact, total, tokens: [[id, text, bytes in hex, flags, piece or null, start, end, writer], ...]}]
pieces: [[text, rule in words, bytes in hex, byte alphabet, ids, whole, ranks or null, steps or null], ...] by number
        steps: [[rank, at, rank_before, rank_after], ...]; both null where the piece is too long to be stepped through
stages: [[name, value, explanation], ...], what each stage did to the whole text
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from miniinfer.tokenization.encoding import Encoding, Piece
from miniinfer.tokenization.pre_tokenizer import RULES

MOST_TOKENS = 800  # chips: the browser lays out all of them
MOST_SYMBOLS = 256  # bytes of a piece whose merges are stepped through in the picture; the table has longer ones
CONTROL, SPLIT = 1, 2  # flags, as in the workspace's message


def strip(encoding: Encoding, writers: Sequence[str], title: str = "", fact: str = "") -> dict[str, Any]:
    """The first MOST_TOKENS tokens. writers: one for each token; see tokenization.segments."""
    tokens = [
        [
            t.token_id, t.text, t.raw.hex(), CONTROL * t.control | SPLIT * t.split, t.piece, t.start, t.end, writer,
        ]
        for t, writer in zip(encoding.tokens[:MOST_TOKENS], writers, strict=False)
    ]  # fmt: skip
    return {"title": title, "fact": fact, "total": len(encoding.tokens), "tokens": tokens}


def pieces(encoding: Encoding) -> list[list[Any]]:
    """Those of the tokens that `strip` shows."""
    shown = [t.piece for t in encoding.tokens[:MOST_TOKENS] if t.piece is not None]
    return [_piece(piece) for piece in encoding.pieces[: max(shown, default=-1) + 1]]


def _piece(piece: Piece) -> list[Any]:
    long = len(piece.symbols) > MOST_SYMBOLS
    text = piece.text[:MOST_SYMBOLS] + "…" if long else piece.text
    return [
        text, RULES[piece.rule], "" if long else piece.text.encode().hex(), "" if long else piece.symbols,
        list(piece.ids[:MOST_SYMBOLS]), piece.whole, None if long else list(piece.merging.ranks),
        None if long else [[s.rank, s.at, s.rank_before, s.rank_after] for s in piece.merging.steps],
    ]  # fmt: skip


def stages(encoding: Encoding, normalisation: str, pre: str) -> list[list[str]]:
    """One entry for each stage, in the order in which they happen. normalisation: what the file asks for, in a word."""
    added = sum(part.token_id is not None for part in encoding.parts)
    count, merges = len(encoding.pieces), sum(len(piece.merging.steps) for piece in encoding.pieces)
    size, characters = len(encoding.raw), len(encoding.text)
    return [
        ["Normalise", normalisation, "What the tokenizer's file wants changed in every text before anything else."],
        ["Control tokens", f"{added:,} found", "Added tokens are taken out first; what lies between is plain text."],
        ["Pre-tokenize", f"{count:,} {'piece' if count == 1 else 'pieces'}", f"Cut by the rules called “{pre}”: no "
         "merge crosses from one piece into the next."],
        ["Bytes", f"{size:,} bytes", f"UTF-8, of {characters:,} characters; each byte is written as one character of "
         "the byte alphabet, so that no text is without tokens."],
        ["Merge", f"{merges:,} merges", "In each piece: of all neighbours that have a rule, the pair of lowest rank "
         "first, of equals the leftmost."],
        ["Ids", f"{len(encoding.tokens):,} tokens", "Each part that is left is a token; its place in the vocabulary is "
         "its id."],
    ]  # fmt: skip
