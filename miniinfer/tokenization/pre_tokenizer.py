"""Cutting a text into pieces: a merge never crosses from one piece into the next.

The GPT-2 split takes, at each place, the first of its rules that fits. It is written as a scanner and not as a regular
expression, so that each piece can say which rule made it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from miniinfer.tokenization.character_classes import class_of, is_digit

CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")
RULES = {
    "contraction": "an English ending behind an apostrophe",
    "letter": "letters, and the space in front if there is one",
    "number": "numerals, and the space in front if there is one",
    "other": "signs, and the space in front if there is one",
    "blank": "blanks; the last one is left to what follows",
    "last": "blanks up to the end of the text, or one blank that nothing takes",
    "digit": "a digit alone",
}


@dataclass(frozen=True)
class Cut:
    """A piece of the text; rule: a key of RULES."""

    text: str
    rule: str


def pre_tokenize(text: str, pre: str) -> list[Cut]:
    """The pieces in order; joined they are the text. pre: a name from models.tokenizer.PRE_TOKENIZERS."""
    return list(PRE_TOKENIZERS[pre](text))


def _smollm(text: str) -> Iterator[Cut]:
    """Every digit alone, then the GPT-2 split of each run between digits: to it, a digit is the end of the text."""
    start = 0
    for place, character in enumerate(text):
        if is_digit(character):
            yield from _gpt2(text[start:place])
            yield Cut(character, "digit")
            start = place + 1
    yield from _gpt2(text[start:])


def _gpt2(text: str) -> Iterator[Cut]:
    place = 0
    while place < len(text):
        end, rule = _next(text, place)
        yield Cut(text[place:end], rule)
        place = end


def _next(text: str, place: int) -> tuple[int, str]:
    """The end of the piece that begins at `place`, and the rule that made it."""
    if text[place] == "'":
        for contraction in CONTRACTIONS:
            if text.startswith(contraction, place):
                return place + len(contraction), "contraction"
    first = place + (text[place] == " ")  # one space may stand in front of letters, numerals or signs
    kind = class_of(text[first]) if first < len(text) else "blank"
    if kind != "blank":
        return _run(text, first, kind), kind
    end = _run(text, place, "blank")
    if end == len(text) or end == place + 1:
        return end, "last"
    return end - 1, "blank"  # what follows takes the last blank, if that is a space


def _run(text: str, place: int, kind: str) -> int:
    """The end of the characters of this class from `place` on."""
    while place < len(text) and class_of(text[place]) == kind:
        place += 1
    return place


PRE_TOKENIZERS: dict[str, Callable[[str], Iterator[Cut]]] = {"gpt-2": _gpt2, "smollm": _smollm}
