"""Which characters are letters, numbers and blanks to a pre-tokenizer.

These are tables of Unicode, and every version of it adds characters: Python's own table is older or newer than the one
that is compiled into the `tokenizers` library. A character that the two call differently would be cut differently, so
beyond ASCII the library is asked, one character at a time. That is all it is asked here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from tokenizers import Regex, pre_tokenizers

CharacterClass = Literal["letter", "number", "blank", "other"]

_LETTER, _NUMBER, _BLANK = (pre_tokenizers.Split(Regex(name), "removed") for name in (r"\p{L}", r"\p{N}", r"\s"))
_DIGITS = pre_tokenizers.Digits(individual_digits=True)
KEPT = 1 << 16  # characters whose class is remembered


@lru_cache(maxsize=KEPT)
def class_of(character: str) -> CharacterClass:
    r"""What \p{L}, \p{N} and \s of the GPT-2 pattern call this one character."""
    if character < "\x80":
        if character.isalpha():
            return "letter"
        # Python counts U+001C to U+001F as blanks, the pattern does not.
        return "number" if character.isdigit() else "blank" if character in " \t\n\v\f\r" else "other"
    if not _LETTER.pre_tokenize_str(character):
        return "letter"
    if not _NUMBER.pre_tokenize_str(character):
        return "number"
    return "blank" if not _BLANK.pre_tokenize_str(character) else "other"


@lru_cache(maxsize=KEPT)
def is_digit(character: str) -> bool:
    """What the step "every digit alone" takes for a digit: numerals of every script, ½ and ② among them."""
    if character < "\x80":
        return character.isdigit()
    return len(_DIGITS.pre_tokenize_str("x" + character)) == 2
