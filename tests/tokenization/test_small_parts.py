"""Characters, costs, look-up, comparison and escapes: each by hand or against the tokenizer itself."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miniinfer.models.tokenizer import Tokenizer
from miniinfer.tokenization.characters import characters_of
from miniinfer.tokenization.costs import SAMPLES, costs_of
from miniinfer.tokenization.encoding import encode_steps
from miniinfer.tokenization.escapes import escape, unescape
from miniinfer.tokenization.side_by_side import side_by_side
from miniinfer.tokenization.vocabulary_search import derivation, describe_tokens, find_tokens, parse_bytes


def test_characters_and_the_tokens_of_their_bytes(tokenizer: Tokenizer) -> None:
    encoding = encode_steps(tokenizer, "a東\u200b\r\n", parse_special=False)
    assert encoding.ids == [81, 30679, 126, 321, 229, 2738]
    found = characters_of(encoding.text, encoding.tokens)
    assert [(c.shown, c.raw.hex(), c.tokens, c.split) for c in found] == [
        ("a", "61", (0,), False), ("東", "e69db1", (1, 2), True), ("<U+200B>", "e2808b", (3, 4), True),
        ("␍", "0d", (5,), False), ("↵", "0a", (5,), False),
    ]  # fmt: skip
    assert [c.name for c in found[2:]] == ["ZERO WIDTH SPACE", "CARRIAGE RETURN", "LINE FEED"]
    assert [c.kind for c in found] == ["letter", "letter", "format, invisible", "control", "control"]


def test_every_sample_can_be_written_and_is_counted_by_the_tokenizer(tokenizer: Tokenizer) -> None:
    costs, refusals = costs_of(tokenizer, [*SAMPLES.items(), ("bad", "\x04")])
    assert [cost.name for cost in costs[:1]] == ["English"]
    assert len(costs) == len(SAMPLES) == 16
    assert refusals == ["bad: The model's vocabulary has no token for the character U+0004 of the text: remove it."]
    for cost in costs:
        assert cost.tokens == len(tokenizer.encode(SAMPLES[cost.name], parse_special=True))
        assert cost.per_byte == cost.tokens / len(cost.text.encode())
        assert "\ufffd" not in tokenizer.decode(tokenizer.encode(cost.text, parse_special=False))


@pytest.mark.parametrize(
    ("query", "by", "ids"),
    [
        ("504, 7042 x 99999 504", "id", [504, 7042]),
        (" capital", "text", [3575]),
        ("F0 9F", "bytes", [10813]),
        ("<f0><9F>", "bytes", [10813]),
        ("0xF0 0x9f", "bytes", [10813]),
        ("F0 9", "bytes", []),
        ("", "text", []),
        ("<|im_end|>", "text", [2]),
    ],
)
def test_tokens_are_found(tokenizer: Tokenizer, query: str, by: str, ids: list[int]) -> None:
    assert find_tokens(tokenizer, query, by)[: len(ids) or None] == ids


def test_by_text_the_token_itself_comes_first_then_the_one_with_a_space(tokenizer: Tokenizer) -> None:
    found = find_tokens(tokenizer, "capital", "text")
    assert [tokenizer.display(i) for i in found[:2]] == ["capital", " capital"]
    assert all(b"capital" in tokenizer.token_bytes(i) for i in found)
    assert len(found) == sum(b"capital" in raw for raw in tokenizer.all_token_bytes)


def test_tokens_are_described_by_the_vocabulary(tokenizer: Tokenizer) -> None:
    of, end, lead, byte = describe_tokens(tokenizer, [282, 2, 10813, 49])
    merges = tokenizer.vocabulary.merges
    assert (of.kind, of.made_of, merges[of.rank or 0]) == ("text", ("Ġo", "f"), ("Ġo", "f"))
    assert (end.kind, end.made_of, lead.kind, byte.kind, byte.rank) == (
        "control token", None, "part of a character", "one byte", None,
    )  # fmt: skip
    assert derivation(tokenizer, 282)[-1][1:] == (" o", "f", " of")
    assert derivation(tokenizer, 2) == []


def test_every_merged_token_is_derived_from_its_bytes(tokenizer: Tokenizer) -> None:
    for token_id in range(300, 49152, 997):
        steps = derivation(tokenizer, token_id)
        assert steps[-1][3] == tokenizer.display(token_id)


@pytest.mark.parametrize(("query", "raw"), [("", b""), ("zz", b""), ("0a0D", b"\n\r"), ("<0A>, <0D>", b"\n\r")])
def test_bytes_are_read(query: str, raw: bytes) -> None:
    assert parse_bytes(query) == raw


def test_two_cuts_side_by_side(tokenizer: Tokenizer) -> None:
    """Words against single bytes of a text that no merge touches."""
    a = encode_steps(tokenizer, "The cat", parse_special=False).tokens
    b = [t for part in "The cat" for t in encode_steps(tokenizer, part, parse_special=False).tokens]
    spread = [type(t)(t.token_id, t.raw, i, i + 1, False, 0, 0) for i, t in enumerate(b)]
    found = side_by_side(a, spread)
    assert [(s.start, s.end, s.a, s.b, s.same) for s in found] == [
        (0, 3, ("The",), ("T", "h", "e"), False), (3, 7, ("␣cat",), ("␣", "c", "a", "t"), False),
    ]  # fmt: skip
    assert all(s.same for s in side_by_side(a, a))
    assert side_by_side([], []) == []


@settings(max_examples=200, deadline=None)
@given(text=st.text())
def test_escapes_come_back(text: str) -> None:
    assert unescape(escape(text)) == text
    assert escape(text).isprintable()


def test_escapes_by_hand() -> None:
    assert unescape(r"a\r\n\t\0\x41\u200b\U0001f642\\n\q\U00110000") == "a\r\n\t\0A\u200b🙂\\n\\q\\U00110000"
