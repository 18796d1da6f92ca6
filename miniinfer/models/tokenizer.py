"""Text to token ids and back: byte-level BPE, done by the `tokenizers` library on the vocabulary of the model file.

Control tokens (<|im_end|> and the like) never reach the library: they are found here, and only when the caller asks
for it, so that text typed by a user stays text. Bytes are never lost, so the offsets of tokens are sums of lengths.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import tokenizers
from tokenizers import models, pre_tokenizers

from miniinfer.errors import BadInputError, ModelFileError
from miniinfer.models.display import display_bytes
from miniinfer.models.vocabulary import Vocabulary, refuse_half_pairs

GPT2_SPLIT = {"add_prefix_space": False, "use_regex": True}
PRE_TOKENIZERS = {
    "gpt-2": lambda: pre_tokenizers.ByteLevel(**GPT2_SPLIT),
    # Every digit alone, then the GPT-2 split.
    "smollm": lambda: pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(**GPT2_SPLIT)]
    ),
}


@dataclass(frozen=True)
class TokenPiece:
    """A token of an encoded text; start and end are byte offsets in it."""

    token_id: int
    token_bytes: bytes
    start: int
    end: int
    special: bool


class Tokenizer:
    """Shared by all users and never written. `name` is the model file's, for messages; ids run from 0 to V - 1."""

    def __init__(self, vocabulary: Vocabulary, vocab_size: int, name: str) -> None:
        self.vocab_size = vocab_size
        self.vocabulary = vocabulary
        self.all_token_bytes = vocabulary.token_bytes(vocab_size, name)
        self._bpe = _build(vocabulary, name)
        self._added_ids = {vocabulary.tokens[token_id]: token_id for token_id in vocabulary.added}
        self._user_defined = _pattern(vocabulary.tokens[token_id] for token_id in vocabulary.user_defined)
        self._added = _pattern(self._added_ids)

    def encode(self, text: str, *, parse_special: bool) -> list[int]:
        """Ids of a text, nothing put in front. parse_special: spelled control tokens become the real ones.

        Raises BadInputError for text that has no UTF-8 form or holds a byte that the vocabulary has no token for.
        """
        return list(self._ids(text, parse_special))

    def encode_prompt(self, text: str) -> list[int]:
        """Ids of a raw prompt, which means what it says: control tokens are parsed, and the model's start token is put
        in front if the model file asks for one and the text does not begin with it."""
        ids = self.encode(text, parse_special=True)
        return self.with_bos(ids) if self.vocabulary.add_bos else ids

    def with_bos(self, ids: Sequence[int]) -> list[int]:
        """The ids with the start token in front, which is never doubled."""
        bos = self.vocabulary.bos_id
        return list(ids) if bos is None or (ids and ids[0] == bos) else [bos, *ids]

    def encode_with_offsets(self, text: str, parse_special: bool) -> list[TokenPiece]:
        """The tokens of a text with their bytes and places."""
        return self.pieces(self.encode(text, parse_special=parse_special))

    def pieces(self, ids: Iterable[int], start: int = 0) -> list[TokenPiece]:
        """The tokens of ids that follow each other, the first at byte `start`."""
        pieces = []
        for token_id in ids:
            raw = self.token_bytes(token_id)
            pieces.append(TokenPiece(token_id, raw, start, start + len(raw), self.is_special(token_id)))
            start += len(raw)
        return pieces

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, control tokens spelled out; bytes that are no character become U+FFFD."""
        return b"".join(self.token_bytes(token_id) for token_id in ids).decode("utf-8", errors="replace")

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of one token. Raises BadInputError for an id outside the vocabulary."""
        if not 0 <= token_id < self.vocab_size:
            raise BadInputError(f"There is no token {token_id}: ids run from 0 to {self.vocab_size - 1}.")
        return self.all_token_bytes[token_id]

    def is_special(self, token_id: int) -> bool:
        """True for control tokens, which no plain text contains."""
        return token_id in self.vocabulary.control

    def display(self, token_id: int) -> str:
        """Whole characters as they are, the bytes of a split character as <F0><9F>, never empty."""
        return display_bytes(self.token_bytes(token_id)) or f"<no token {token_id}>"

    def token_id(self, spelling: str) -> int | None:
        """The id of a control or user-defined token, None if there is no such token."""
        return self._added_ids.get(spelling)

    @property
    def control_spellings(self) -> tuple[str, ...]:
        return tuple(self.vocabulary.tokens[token_id] for token_id in sorted(self.vocabulary.control))

    def split_added(self, text: str, parse_special: bool) -> Iterator[tuple[str, int | None]]:
        """The text in parts: added tokens that are found in it, each with its id, and the plain text around them.

        Raises BadInputError for text that has no UTF-8 form.
        """
        refuse_half_pairs(text)
        pattern = self._added if parse_special else self._user_defined
        place = 0
        for match in pattern.finditer(text) if pattern else ():
            yield text[place : match.start()], None
            yield match.group(), self._added_ids[match.group()]
            place = match.end()
        yield text[place:], None

    def _ids(self, text: str, parse_special: bool) -> Iterator[int]:
        for part, added_id in self.split_added(text, parse_special):
            if added_id is not None:
                yield added_id
            else:
                self.vocabulary.refuse_missing(part)  # the library would drop bytes without a token in silence
                yield from self._bpe.encode(part, add_special_tokens=False).ids


def _pattern(spellings: Iterable[str]) -> re.Pattern[str] | None:
    longest_first = sorted(spellings, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


def _build(vocabulary: Vocabulary, name: str) -> tokenizers.Tokenizer:
    make_pre_tokenizer = PRE_TOKENIZERS.get(vocabulary.pre)
    if make_pre_tokenizer is None:
        known = " and ".join(PRE_TOKENIZERS)
        raise ModelFileError(
            f"{name} uses the pre-tokenizer {reprlib.repr(vocabulary.pre)}, but only {known} are known: "
            "another one would cut the text differently, so this model cannot be used."
        )
    try:
        bpe = models.BPE(vocabulary.plain_ids, list(vocabulary.merges), ignore_merges=vocabulary.ignore_merges)
    except Exception as error:  # the library raises plain Exceptions
        reason = " ".join(str(error).split())[:200]
        raise ModelFileError(f"{name}: the tokenizer cannot be built ({reason}).") from error
    built = tokenizers.Tokenizer(bpe)
    built.pre_tokenizer = make_pre_tokenizer()
    return built
