"""Looking up any token of a vocabulary: by id, by text, by bytes; what kind it is, and how merges make it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from miniinfer.models.byte_alphabet import BYTE_OF
from miniinfer.models.display import display_bytes
from miniinfer.models.tokenizer import Tokenizer
from miniinfer.tokenization.merging import merge


@dataclass(frozen=True)
class FoundToken:
    """made_of: the two parts of its last merge, in the byte alphabet; rank: of that merge. Both None if none makes it.
    """

    token_id: int
    raw: bytes
    kind: str
    made_of: tuple[str, str] | None
    rank: int | None


def find_tokens(tokenizer: Tokenizer, query: str, by: str) -> list[int]:
    """Ids that fit, the best fit first and of equal ones the lowest. by: "id", "text" or "bytes".

    By text: tokens that are the text, with or without a space in front, then those that begin with it, then those that
    hold it. By bytes (F0 9F, <F0><9F> or 0xF0 0x9F): the same of bytes. An id may be a list of them.
    """
    if by == "id":
        return [int(word) for word in asked_ids(query) if is_id(word, tokenizer.vocab_size)]
    wanted = query.encode("utf-8", "replace") if by == "text" else parse_bytes(query)
    if not wanted:
        return []
    fits = []
    for token_id, raw in enumerate(tokenizer.all_token_bytes):
        if wanted in raw:
            fit = 0 if raw == wanted else 1 if raw == b" " + wanted else 2 if raw.startswith(wanted) else 3
            fits.append((fit, token_id))
    return [token_id for _, token_id in sorted(fits)]


def asked_ids(query: str) -> list[str]:
    """The whole numbers of a list of ids, as they are written, each once."""
    return list(dict.fromkeys(re.findall(r"-?\d+", query)))


def is_id(word: str, vocab_size: int) -> bool:
    """Whether this number of `asked_ids` is one of the ids 0 to vocab_size - 1."""
    return not word.startswith("-") and len(word.lstrip("0")) <= len(str(vocab_size)) and int(word) < vocab_size


def parse_bytes(query: str) -> bytes:
    """The bytes of "F0 9F", "<F0><9F>", "0xF0 0x9F" or "f09f"; nothing if the text is no such list."""
    bare = re.sub(r"0x|[<>,\s]", "", query, flags=re.IGNORECASE)
    return bytes.fromhex(bare) if len(bare) % 2 == 0 and re.fullmatch(r"[0-9A-Fa-f]*", bare) else b""


def describe_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[FoundToken]:
    """What the vocabulary says about each."""
    return [_describe(tokenizer, token_id) for token_id in ids]


def _describe(tokenizer: Tokenizer, token_id: int) -> FoundToken:
    vocabulary, raw = tokenizer.vocabulary, tokenizer.token_bytes(token_id)
    token = vocabulary.tokens[token_id] if token_id < len(vocabulary.tokens) else ""
    if not token:
        return FoundToken(token_id, raw, "no token has this id", None, None)
    if token_id in vocabulary.added:
        kind = "control token" if tokenizer.is_special(token_id) else "added token"
        return FoundToken(token_id, raw, kind, None, None)
    merging = merge(token, vocabulary.ranks)
    last = merging.steps[-1] if merging.steps and len(merging.parts) == 1 else None
    kind = "one byte" if len(raw) == 1 else "part of a character" if _is_partial(raw) else "text"
    return FoundToken(token_id, raw, kind, (last.left, last.right) if last else None, last.rank if last else None)


def derivation(tokenizer: Tokenizer, token_id: int) -> list[tuple[int, str, str, str]]:
    """The merges that make a token from its bytes, in order: (rank, left, right, result), texts of whole characters
    where they are whole. Empty for single bytes, added tokens, and tokens that no merges make."""
    vocabulary = tokenizer.vocabulary
    if token_id >= len(vocabulary.tokens) or token_id in vocabulary.added:
        return []
    merging = merge(vocabulary.tokens[token_id], vocabulary.ranks)
    steps = merging.steps if len(merging.parts) == 1 else ()
    return [(step.rank, _text(step.left), _text(step.right), _text(step.left + step.right)) for step in steps]


def _text(symbols: str) -> str:
    return display_bytes(bytes(BYTE_OF[symbol] for symbol in symbols))


def _is_partial(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return True
    return False
