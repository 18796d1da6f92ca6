"""What a user reads of an error: one line that has an end, whatever its names hold."""

from __future__ import annotations

from miniinfer.errors import MOST_LETTERS, BadInputError, ModelFileError


def test_a_sentence_is_one_line_that_turns_nothing_around_and_can_be_sent() -> None:
    said = str(ModelFileError("a\nb\u202egif\udcff \u2028.gguf is damaged."))
    assert said == "a<U+000A>b<U+202E>gif<U+DCFF> <U+2028>.gguf is damaged."
    said.encode()


def test_a_sentence_has_an_end_and_its_way_out() -> None:
    said = str(BadInputError(f"There is no model {'x' * 100_000}: give another one."))
    assert len(said) <= MOST_LETTERS
    assert said.startswith("There is no model xxx")
    assert said.endswith(": give another one.")
