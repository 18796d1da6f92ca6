"""The text of an output: whole characters, and nothing of what ended it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniinfer.cli.output_text import OutputText
from miniinfer.engine.finish import cut_at_stop


def pieces_of(parts: list[bytes], stop: list[str]) -> list[str]:
    """What is shown after each part, and at the end."""
    output = OutputText(parts, stop)
    shown = [output.push(index) for index in range(len(parts))] + [output.finish()]
    assert output.text == "".join(shown)
    return shown


def test_a_split_character_comes_whole() -> None:
    assert pieces_of([b"\xf0\x9f", b"\x99\x82", b"!"], []) == ["", "🙂", "!", ""]
    assert pieces_of([b"a", b"\xf0\x9f"], []) == ["a", "", "\ufffd"]


def test_a_stop_string_is_not_shown_even_in_parts() -> None:
    assert pieces_of([b"one", b" st", b"op two"], ["stop"]) == ["one", " ", "", ""]


def test_what_only_began_like_a_stop_string_is_shown() -> None:
    assert pieces_of([b"a\n", b"\nb"], ["\n\n\n"]) == ["a", "\n\nb", ""]
    assert pieces_of([b"a\n"], ["\n\n"]) == ["a", "\n"]


def test_the_earliest_of_several_counts() -> None:
    assert pieces_of([b"x, y. z"], ["z", ".", ", y. z and more"])[0] == "x"


@given(st.lists(st.binary(max_size=3)), st.lists(st.text("ab é", min_size=1, max_size=3), max_size=2))
def test_joined_it_is_the_whole_text_up_to_the_stop(parts: list[bytes], stop: list[str]) -> None:
    whole = cut_at_stop(b"".join(parts), stop)
    assert "".join(pieces_of(parts, stop)) == whole.decode(errors="replace")


@pytest.mark.parametrize("stop", [[], ["never"]])
def test_no_tokens_no_text(stop: list[str]) -> None:
    assert pieces_of([], stop) == [""]
