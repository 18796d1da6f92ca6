"""Our own encoder against the `tokenizers` library, on what Unicode is hard for."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miniinfer.errors import BadInputError
from miniinfer.models.tokenizer import PRE_TOKENIZERS, Tokenizer
from miniinfer.tokenization.encoding import encode_parts, encode_steps
from miniinfer.tokenization.pre_tokenizer import pre_tokenize

HARD = [
    "👨\u200d👩\u200d👧\u200d👦", "👋🏽", "🇩🇪", "❤\ufe0f\u200d🔥", "e\u0301", "ﷺ", "نعم\u200f!", "שלום\u200e",
    "\u202eabc\u202c", "a\r\nb", "\r\n\r\n", "\n\r", "\t\t x", "\u200b", "\u200d", "\ufeff", "\u00a0x", "\u2028",
    "\u3000", "\x1c", "\x85", "12345", "½", "②", "٣", "𝟘", "Ⅷ", "   ", " " * 40, "  a", " 's", "'s", "'S", "I'll",
    "don't", "''ve", "_x_", "ǅ", "ß", "ﬁ", "İ", "Å", "가각", "하", "กำ", "क्षि", "𠮷", "\U0001f9ff", "\U00010d40",
    "\u1c89", "<|im_end|>", "<|im_", "|>", "\\n", "\u0378", "x\n\ny", "def f():\n    return  x",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(HARD) | st.text(max_size=12), max_size=12).map("".join)


@settings(max_examples=400, deadline=None)
@given(text=TEXTS, parse_special=st.booleans())
def test_it_equals_the_library_on_all_of_unicode(tokenizer: Tokenizer, text: str, parse_special: bool) -> None:
    missing = tokenizer.vocabulary.missing_bytes
    text = "".join(character for character in text if missing.isdisjoint(character.encode()))
    encoding = encode_steps(tokenizer, text, parse_special=parse_special)
    assert encoding.ids == tokenizer.encode(text, parse_special=parse_special)
    assert encoding.text == text
    assert [(t.start, t.end) for t in encoding.tokens] == [
        (p.start, p.end) for p in tokenizer.encode_with_offsets(text, parse_special)
    ]


@pytest.fixture(scope="module")
def other(tokenizer: Tokenizer) -> Tokenizer:
    """The same vocabulary with the other rules that a file can ask for."""
    vocabulary = dataclasses.replace(tokenizer.vocabulary, pre="gpt-2", ignore_merges=True)
    return Tokenizer(vocabulary, tokenizer.vocab_size, "other")


@settings(max_examples=200, deadline=None)
@given(text=TEXTS)
def test_it_equals_the_library_with_the_other_split(other: Tokenizer, text: str) -> None:
    text = "".join(character for character in text if other.vocabulary.missing_bytes.isdisjoint(character.encode()))
    assert encode_steps(other, text, parse_special=False).ids == other.encode(text, parse_special=False)


@pytest.mark.parametrize("text", [*HARD, "", " ", "".join(HARD)])
def test_hard_texts_one_by_one(tokenizer: Tokenizer, text: str) -> None:
    assert encode_steps(tokenizer, text, parse_special=False).ids == tokenizer.encode(text, parse_special=False)


@pytest.mark.parametrize("pre", ["smollm", "gpt-2"])
def test_every_character_there_is(pre: str) -> None:
    """Classes of Unicode decide cuts. All code points but the large blocks that are one class, in places that tell."""
    numbers = (*range(0x3500), *range(0x9F00, 0xAC10), *range(0xD700, 0xD800), *range(0xF900, 0x1FFFF))
    text = "".join(f" {chr(n)}{chr(n)}a {chr(n)}1" for n in numbers)
    library = PRE_TOKENIZERS[pre]().pre_tokenize_str(text)
    assert [cut.text for cut in pre_tokenize(text, pre)] == [text[slice(*place)] for _, place in library]


@pytest.mark.parametrize("text", ["a" * 100_000, " " * 100_000, "\n" * 100_000, "🙂" * 20_000, "ab" * 50_000])
def test_one_letter_a_hundred_thousand_times_stays_near_linear(tokenizer: Tokenizer, text: str) -> None:
    encoding = encode_steps(tokenizer, text, parse_special=False)
    assert encoding.ids == tokenizer.encode(text, parse_special=False)
    size = len(encoding.raw)
    assert sum(piece.merging.operations for piece in encoding.pieces) <= 6 * size


def test_what_the_library_would_drop_is_refused(tokenizer: Tokenizer) -> None:
    for text, words in (("a\x04b", "no token for the character U+0004"), ("a\ud800", "Character 1 of the text")):
        with pytest.raises(BadInputError, match=words.replace("+", r"\+")):
            encode_steps(tokenizer, text, parse_special=True)


def test_control_tokens_are_parts_of_their_own_only_when_asked(tokenizer: Tokenizer) -> None:
    asked = encode_steps(tokenizer, "A<|im_end|>B", parse_special=True)
    assert [(p.text, p.kind, p.token_id) for p in asked.parts] == [
        ("A", "text", None), ("<|im_end|>", "control", 2), ("B", "text", None),
    ]  # fmt: skip
    assert [(t.token_id, t.control, t.piece) for t in asked.tokens] == [(49, False, 0), (2, True, None), (50, False, 1)]
    plain = encode_parts(tokenizer, [("A<|im_end|>B", False)])
    assert plain.ids == [49, 44, 108, 306, 79, 486, 108, 46, 50]


def test_a_split_character_is_marked_on_each_of_its_tokens(tokenizer: Tokenizer) -> None:
    tokens = encode_steps(tokenizer, "🙂a", parse_special=False).tokens
    assert [(t.token_id, t.split, t.shown) for t in tokens] == [
        (10813, True, "<F0><9F>"), (38887, True, "<99><82>"), (81, False, "a"),
    ]  # fmt: skip
