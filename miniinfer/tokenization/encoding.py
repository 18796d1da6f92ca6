"""A text on its way to ids, stage by stage: parts, pieces, bytes, merges, ids. All of it is kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from miniinfer.models.byte_alphabet import BYTE_OF, CHARACTER_OF
from miniinfer.models.display import display_bytes, visible
from miniinfer.models.tokenizer import Tokenizer
from miniinfer.models.vocabulary import Vocabulary
from miniinfer.tokenization.merging import MergeState, Merging, merge, states
from miniinfer.tokenization.pre_tokenizer import pre_tokenize

PartKind = Literal["control", "user defined", "text"]


@dataclass(frozen=True)
class Piece:
    """What merges cannot leave. start: byte offset in the whole text. symbols: its bytes in the byte alphabet.

    rule: a key of pre_tokenizer.RULES. whole: the piece is itself a token and this vocabulary takes such pieces as they
    are, so that nothing was merged.
    """

    text: str
    start: int
    rule: str
    symbols: str
    merging: Merging
    ids: tuple[int, ...]
    whole: bool

    @property
    def parts(self) -> tuple[str, ...]:
        """Its tokens, written in the byte alphabet."""
        return (self.symbols,) if self.whole else self.merging.parts

    @property
    def shown(self) -> str:
        return visible(self.text)

    @cached_property
    def states(self) -> list[MergeState]:
        """One for each merge, and the last, in which nothing is left to do."""
        return list(states(self.symbols, self.merging))


@dataclass(frozen=True)
class Part:
    """An added token that was found in the text, or the plain text between two of them, which is cut into pieces."""

    text: str
    start: int
    kind: PartKind
    token_id: int | None = None
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True)
class TokenPlace:
    """A token of the text; start, end: byte offsets. part, piece: numbers of those it came from; added ones have no
    piece."""

    token_id: int
    raw: bytes
    start: int
    end: int
    control: bool
    part: int
    piece: int | None

    @property
    def text(self) -> str:
        """Whole characters as they are, bytes of a split one as <F0><9F>."""
        return display_bytes(self.raw)

    @property
    def shown(self) -> str:
        """The same with every character visible."""
        return visible(self.text)

    @property
    def split(self) -> bool:
        """It holds a part of a character only, at one end or at both."""
        try:
            self.raw.decode()
        except UnicodeDecodeError:
            return True
        return False


@dataclass(frozen=True)
class Encoding:
    """A whole text. Joined, the texts of the parts are the text."""

    parts: tuple[Part, ...]

    @cached_property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)

    @cached_property
    def raw(self) -> bytes:
        return self.text.encode()

    @cached_property
    def pieces(self) -> list[Piece]:
        return [piece for part in self.parts for piece in part.pieces]

    @cached_property
    def tokens(self) -> list[TokenPlace]:
        found: list[TokenPlace] = []
        number = -1
        for at, part in enumerate(self.parts):
            if part.token_id is not None:
                raw = part.text.encode()
                end = part.start + len(raw)
                found.append(TokenPlace(part.token_id, raw, part.start, end, part.kind == "control", at, None))
            for piece in part.pieces:
                number += 1
                start = piece.start
                for token_id, written in zip(piece.ids, piece.parts, strict=True):
                    raw = bytes(BYTE_OF[character] for character in written)
                    found.append(TokenPlace(token_id, raw, start, start + len(raw), False, at, number))
                    start += len(raw)
        return found

    @cached_property
    def ids(self) -> list[int]:
        return [token.token_id for token in self.tokens]


def encode_steps(tokenizer: Tokenizer, text: str, *, parse_special: bool) -> Encoding:
    """The stages of a text. Raises BadInputError where Tokenizer.encode does."""
    return encode_parts(tokenizer, [(text, parse_special)])


def encode_parts(tokenizer: Tokenizer, texts: Iterable[tuple[str, bool]]) -> Encoding:
    """The stages of texts that follow each other and are encoded each on its own: (text, whether control tokens that
    are spelled in it become the real ones)."""
    vocabulary = tokenizer.vocabulary
    known: dict[tuple[str, str], Piece] = {}  # words repeat, and what becomes of them does not change
    parts: list[Part] = []
    start = 0
    for whole, parse_special in texts:
        for text, token_id in tokenizer.split_added(whole, parse_special):
            if token_id is not None:
                kind: PartKind = "control" if tokenizer.is_special(token_id) else "user defined"
                parts.append(Part(text, start, kind, token_id))
            elif text:
                vocabulary.refuse_missing(text)
                parts.append(Part(text, start, "text", None, _pieces(vocabulary, text, start, known)))
            start += len(text.encode())
    return Encoding(tuple(parts))


def _pieces(
    vocabulary: Vocabulary, text: str, start: int, known: dict[tuple[str, str], Piece]
) -> tuple[Piece, ...]:
    pieces = []
    for cut in pre_tokenize(text, vocabulary.pre):
        key = (cut.text, cut.rule)
        if key not in known:
            known[key] = _piece(vocabulary, cut.text, cut.rule)
        same = known[key]
        pieces.append(Piece(same.text, start, same.rule, same.symbols, same.merging, same.ids, same.whole))
        start += len(same.symbols)
    return tuple(pieces)


def _piece(vocabulary: Vocabulary, text: str, rule: str) -> Piece:
    symbols = "".join(CHARACTER_OF[byte] for byte in text.encode())
    ids = vocabulary.plain_ids
    if vocabulary.ignore_merges and symbols in ids:
        nothing = Merging((None,) * (len(symbols) - 1), (), tuple(symbols), 0)
        return Piece(text, 0, rule, symbols, nothing, (ids[symbols],), whole=True)
    merging = merge(symbols, vocabulary.ranks)
    return Piece(text, 0, rule, symbols, merging, tuple(ids[part] for part in merging.parts), whole=False)
