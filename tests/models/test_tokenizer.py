"""Text to ids on the real vocabulary, where re-implementations usually go wrong."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miniinfer.errors import BadInputError
from miniinfer.models.loader import LoadedModel


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", []),
        (" ", [216]),
        ("Hello", [19556]),
        (" Hello", [38699]),
        ("The quick brown fox", [504, 2365, 6354, 16438]),
        ("The quick brown fox ", [504, 2365, 6354, 16438, 216]),
        ("The capital of France is", [504, 3575, 282, 4649, 314]),
        ("Hi 🙂!", [26843, 47526, 17]),
        # runs of blanks: the last one belongs to the next word
        ("x\n\n", [104, 1116]),
        ("x\n\ny", [104, 198, 198, 105]),
        ("\n\n\nx", [1116, 198, 104]),
        ("a  b", [81, 216, 278]),
        ("def f():\n    return  x", [1604, 275, 3734, 472, 1003, 216, 1792]),
        # numerals outside 0-9 are digits too
        (" ½", [216, 16738]),
        ("4 ½", [36, 216, 16738]),
        # line ends are not normalised
        ("a\nb", [81, 198, 82]),
        ("a\r\nb", [81, 201, 198, 82]),
        ("a\r\n", [81, 2738]),
        ("\r\n", [2738]),
        ("\t", [197]),
        ("é", [2756]),
        ("e\u0301", [85, 151, 219]),
        ("東京", [30679, 126, 16736, 122]),
        ("\u200b", [321, 229]),
        ("<script>alert(1)</script>", [44, 13164, 46, 36407, 24, 33, 25, 9617, 13164, 46]),
        ("a<b<c", [81, 44, 82, 44, 83]),
        ("$5 and $6", [20, 37, 284, 1885, 38]),
    ],
)
def test_known_ids(model: LoadedModel, text: str, ids: list[int]) -> None:
    assert model.tokenizer.encode(text, parse_special=True) == ids
    assert model.tokenizer.encode(text, parse_special=False) == ids
    assert model.tokenizer.decode(ids) == text


def test_ids_equal_other_software(model: LoadedModel, reference: dict) -> None:
    for case in reference["cases"]:
        assert model.tokenizer.encode(case["prompt"], parse_special=True) == case["ids"]


def test_control_tokens_are_parsed_only_when_asked(model: LoadedModel) -> None:
    text = "A<|im_end|>B"
    assert model.tokenizer.encode(text, parse_special=False) == [49, 44, 108, 306, 79, 486, 108, 46, 50]
    assert model.tokenizer.encode(text, parse_special=True) == [49, 2, 50]


def test_repo_name_is_not_taken_for_a_shorter_control_token(model: LoadedModel) -> None:
    assert model.tokenizer.encode("<reponame><repo_name>", parse_special=True) == [4, 3]


def test_start_token_is_never_doubled(model: LoadedModel) -> None:
    tokenizer = model.tokenizer
    assert tokenizer.vocabulary.add_bos is False
    assert tokenizer.encode_prompt("Hello") == [19556]
    assert tokenizer.with_bos([19556]) == [1, 19556]
    assert tokenizer.with_bos([1, 9690]) == [1, 9690]
    assert tokenizer.with_bos([]) == [1]


def test_offsets_are_byte_offsets(model: LoadedModel) -> None:
    text = "a東京<|im_end|> b"
    pieces = model.tokenizer.encode_with_offsets(text, True)
    raw = text.encode()
    assert [piece.start for piece in pieces[1:]] == [piece.end for piece in pieces[:-1]]
    assert (pieces[0].start, pieces[-1].end) == (0, len(raw))
    assert all(raw[piece.start : piece.end] == piece.token_bytes for piece in pieces)
    assert [piece.token_id for piece in pieces if piece.special] == [2]


@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=40), parse_special=st.booleans())
def test_nothing_is_lost(model: LoadedModel, text: str, parse_special: bool) -> None:
    missing = [character for character in text if not MISSING_BYTES.isdisjoint(character.encode())]
    if missing:
        with pytest.raises(BadInputError, match=rf"U\+{ord(missing[0]):04X}"):
            model.tokenizer.encode(text, parse_special=parse_special)
    else:
        assert model.tokenizer.decode(model.tokenizer.encode(text, parse_special=parse_special)) == text


# The vocabulary of SmolLM2 has tokens for 235 of the 256 bytes; these are the others.
MISSING_BYTES = {0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xC0, 0xC1, 0xF1, 0xF2, *range(0xF5, 0x100)}


def test_a_byte_without_a_token_is_named_not_dropped(model: LoadedModel) -> None:
    with pytest.raises(BadInputError, match=r"no token for the character U\+0004"):
        model.tokenizer.encode("a\x04b", parse_special=False)


def test_half_a_surrogate_pair_is_refused(model: LoadedModel) -> None:
    with pytest.raises(BadInputError, match="Character 1 of the text"):
        model.tokenizer.encode("a\ud800", parse_special=False)


@pytest.mark.parametrize("token_id", [-1, 49152])
def test_ids_outside_the_vocabulary(model: LoadedModel, token_id: int) -> None:
    with pytest.raises(BadInputError, match=f"no token {token_id}: ids run from 0 to 49151"):
        model.tokenizer.decode([token_id])


def test_every_token_has_bytes(model: LoadedModel) -> None:
    assert len(model.token_bytes) == model.config.vocab_size == model.tokenizer.vocab_size == 49152
    assert all(model.token_bytes)
    assert model.token_bytes[2] == b"<|im_end|>"
    assert [model.token_bytes[i] for i in (10813, 38887)] == [b"\xf0\x9f", b"\x99\x82"]
