"""What a model file says about its tokens, in one form for every file format."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from miniinfer.errors import BadInputError, ModelFileError
from miniinfer.models.byte_alphabet import CHARACTER_OF, to_bytes

# Control tokens that end a text or a turn whether or not the file declares them.
END_SPELLINGS = ("<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>", "</s>")


@dataclass(frozen=True)
class Vocabulary:
    """Byte-level BPE: tokens by id, merges in order of rank, and which tokens are more than text.

    A token is written in the byte alphabet, an added one (control or user_defined) as it stands in the text. An empty
    string marks an id that no token has.
    """

    tokens: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]
    pre: str  # name of the pre-tokenizer
    control: frozenset[int]  # found in a text only when special tokens are parsed
    user_defined: frozenset[int]  # found in every text
    bos_id: int | None = None
    add_bos: bool = False
    declared_stop_ids: frozenset[int] = frozenset()
    ignore_merges: bool = False  # a piece that is itself a token is not split and merged again

    @property
    def added(self) -> frozenset[int]:
        return self.control | self.user_defined

    @property
    def stop_ids(self) -> frozenset[int]:
        """Every id declared as an end in any place, and the control tokens that mean an end by their spelling."""
        spelled = {token_id for token_id in self.control if self.tokens[token_id] in END_SPELLINGS}
        return self.declared_stop_ids | spelled

    @cached_property
    def plain_ids(self) -> dict[str, int]:
        """Token -> id of all that a plain text can become: every token that is no control token."""
        numbered = enumerate(self.tokens)
        return {token: token_id for token_id, token in numbered if token and token_id not in self.control}

    @cached_property
    def ranks(self) -> dict[tuple[str, str], int]:
        """Pair -> rank of its merge; of a pair that is listed twice the later one, as in the library."""
        return {pair: rank for rank, pair in enumerate(self.merges)}

    @cached_property
    def missing_bytes(self) -> frozenset[int]:
        """Bytes that no plain text can be written with, a control token of that spelling being none of its tokens; most
        byte-level vocabularies have none of these."""
        return frozenset(byte for byte, character in CHARACTER_OF.items() if character not in self.plain_ids)

    def refuse_missing(self, text: str) -> None:
        """Raises BadInputError for text with a byte that no token stands for."""
        if self.missing_bytes and not self.missing_bytes.isdisjoint(text.encode()):
            lost = next(character for character in text if not self.missing_bytes.isdisjoint(character.encode()))
            raise BadInputError(
                f"The model's vocabulary has no token for the character U+{ord(lost):04X} of the text: remove it."
            )

    def token_bytes(self, size: int, name: str) -> tuple[bytes, ...]:
        """The bytes of each id from 0 to size - 1 (added tokens: their spelling; ids without a token: nothing).

        Raises ModelFileError if a token is not written in the byte alphabet.
        """
        added, known = self.added, []
        for token_id, token in enumerate(self.tokens):
            try:
                known.append(token.encode() if token_id in added else to_bytes(token))
            except (KeyError, UnicodeEncodeError):
                spelling = reprlib.repr(token)
                raise ModelFileError(f"{name}: token {token_id} ({spelling}) is not written in bytes.") from None
        return tuple(known) + (b"",) * (size - len(known))


def refuse_half_pairs(text: str) -> None:
    """Raises BadInputError for text that has no UTF-8 form: it holds half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadInputError(f"Character {error.start} of the text is half of a pair and means nothing.") from None


def parse_merges(merges: Iterable[object], name: str) -> tuple[tuple[str, str], ...]:
    """Merges as pairs. They are written "a b", which is split at the first space, or as a list of two strings."""
    pairs: list[tuple[str, str]] = []
    for merge in merges:
        if isinstance(merge, str):
            left, space, right = merge.partition(" ")
            parts: Sequence[object] = (left, right) if space else (merge,)
        else:
            parts = merge if isinstance(merge, list | tuple) else (merge,)
        match parts:
            case [str() as left, str() as right] if left and right:
                pairs.append((left, right))
            case _:
                raise ModelFileError(f"{name}: the BPE merge {reprlib.repr(merge)} is not a pair of tokens.")
    if not pairs:
        raise ModelFileError(f"{name}: the tokenizer has no BPE merges, so it would cut every text into single bytes.")
    return tuple(pairs)


def check_vocabulary(vocabulary: Vocabulary, name: str, rows: int) -> None:
    """Raises ModelFileError if the tokens contradict each other or do not fit the embedding of so many rows."""
    if len(vocabulary.tokens) > rows:
        raise ModelFileError(
            f"{name}: the tokenizer has {len(vocabulary.tokens)} tokens but the embedding {rows} rows."
        )
    seen: dict[str, int] = {}
    for token_id, token in enumerate(vocabulary.tokens):
        if token and seen.setdefault(token, token_id) != token_id:
            raise ModelFileError(
                f"{name}: the ids {seen[token]} and {token_id} are both the token {reprlib.repr(token)}."
            )
    declared = vocabulary.added | vocabulary.declared_stop_ids | {vocabulary.bos_id}
    outside = sorted(token_id for token_id in declared if token_id is not None and not 0 <= token_id < rows)
    if outside:
        raise ModelFileError(f"{name}: the token id {outside[0]} is declared but the vocabulary has {rows} ids.")
