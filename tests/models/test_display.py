"""Token labels: people's own characters, bytes only where a character is split, never an empty label."""

from __future__ import annotations

import pytest

from miniinfer.errors import tame
from miniinfer.models.display import display_bytes, visible
from miniinfer.models.loader import LoadedModel


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        (" ", [" "]),
        ("\n", ["\n"]),
        ("\n\n", ["\n\n"]),
        ("\t", ["\t"]),
        ("\u200b", ["<E2><80>", "<8B>"]),
        ("é", ["é"]),
        ("e\u0301", ["e", "<CC>", "<81>"]),
        ("東京", ["<E6><9D>", "<B1>", "<E4><BA>", "<AC>"]),
        ("the the the", ["the", " the", " the"]),
    ],
)
def test_labels(model: LoadedModel, text: str, labels: list[str]) -> None:
    ids = model.tokenizer.encode(text, parse_special=False)
    assert [model.tokenizer.display(token_id) for token_id in ids] == labels


def test_control_tokens_show_their_spelling(model: LoadedModel) -> None:
    assert model.tokenizer.display(2) == "<|im_end|>"


def test_no_label_is_empty(model: LoadedModel) -> None:
    assert all(model.tokenizer.display(token_id) for token_id in range(model.tokenizer.vocab_size))


def test_bytes_around_whole_characters() -> None:
    assert display_bytes(b" caf\xc3") == " caf<C3>"
    assert display_bytes(b"\xa9 au\xff") == "<A9> au<FF>"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" a\nb\tc\r", "␣a↵b⇥c␍"),
        ("\n\n", "↵↵"),
        ("\x00\x1b\x7f", "␀␛␡"),
        ("\u200b\u202e\u00a0", "<U+200B><U+202E><U+00A0>"),
        ("é京🙂", "é京🙂"),
    ],
)
def test_visible_signs(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_name_turns_nothing_around() -> None:
    assert tame("a\u202egif\x1b b\u2066c") == "a<U+202E>gif<U+001B> b<U+2066>c"
    assert tame("Ünïcode, 日本, עברית 👩\u200d💻") == "Ünïcode, 日本, עברית 👩\u200d💻"
