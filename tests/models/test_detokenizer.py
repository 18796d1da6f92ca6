"""Streaming text: never half a character, never a stall."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miniinfer.models.detokenizer import Detokenizer
from miniinfer.models.loader import LoadedModel


@pytest.mark.parametrize(
    ("ids", "pieces", "rest"),
    [
        ([10813, 38887], ["", "🙂"], ""),
        ([30679, 126, 16736, 122], ["", "東", "", "京"], ""),
        ([10813], [""], "\ufffd"),
        ([10813, 26843], ["", "\ufffdHi"], ""),
        ([19556, 905, 17], ["Hello", " world", "!"], ""),
        ([38699], [" Hello"], ""),
    ],
)
def test_pieces(model: LoadedModel, ids: list[int], pieces: list[str], rest: str) -> None:
    detokenizer = Detokenizer(model.token_bytes)
    assert [detokenizer.push(token_id) for token_id in ids] == pieces
    assert detokenizer.flush() == rest


@settings(max_examples=200, deadline=None)
@given(ids=st.lists(st.integers(0, 49151) | st.sampled_from([10813, 38887, 30679, 126, 229]), max_size=20))
def test_joined_pieces_equal_decoding_at_once(model: LoadedModel, ids: list[int]) -> None:
    detokenizer = Detokenizer(model.token_bytes)
    streamed = "".join(detokenizer.push(token_id) for token_id in ids) + detokenizer.flush()
    assert streamed == model.tokenizer.decode(ids)


def test_streams_do_not_share_state(model: LoadedModel) -> None:
    first, second = Detokenizer(model.token_bytes), Detokenizer(model.token_bytes)
    first.push(10813)
    assert second.push(26843) == "Hi"
    assert first.push(38887) == "🙂"
