"""The tokenizer page's message, tables and figures hold the encoder's own numbers, and no token becomes markup."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

from miniinfer.figures.palette import LIGHT
from miniinfer.figures.tokenizer.embedding import (
    describe_rows,
    describe_unembed,
    rows_table,
    values_table,
    window_of,
    windows,
)
from miniinfer.figures.tokenizer.payload import MOST_SYMBOLS, MOST_TOKENS, pieces, stages, strip
from miniinfer.figures.tokenizer.plots import colour_limit, costs_figure, neighbours_figure, rows_figure
from miniinfer.figures.tokenizer.tables import costs_table, merges_table, pieces_table, segments_table, tokens_table
from miniinfer.figures.tokenizer.words import notes, summary
from miniinfer.models.text import load_tokenizer
from miniinfer.models.tokenizer import Tokenizer
from miniinfer.tokenization.costs import costs_of
from miniinfer.tokenization.encoding import Encoding, encode_steps
from miniinfer.tokenization.segments import segments_of
from miniinfer.trace.embedding import EmbeddedText, Neighbours, UnembedCheck


@pytest.fixture(scope="module")
def tokenizer(model_path: Path) -> Tokenizer:
    return load_tokenizer(model_path)[0]


def encoded(tokenizer: Tokenizer, text: str) -> Encoding:
    return encode_steps(tokenizer, text, parse_special=True)


def test_the_message_holds_tokens_pieces_and_merges(tokenizer: Tokenizer) -> None:
    encoding = encoded(tokenizer, "🙂 capital<|im_end|>")
    message = strip(encoding, ["typed"] * 3 + ["control"], "t", "f")
    assert message["total"] == 4
    assert message["tokens"] == [
        [10813, "<F0><9F>", "f09f", 2, 0, 0, 2, "typed"], [38887, "<99><82>", "9982", 2, 0, 2, 4, "typed"],
        [3575, " capital", b" capital".hex(), 0, 1, 4, 12, "typed"],
        [2, "<|im_end|>", b"<|im_end|>".hex(), 1, None, 12, 22, "control"],
    ]  # fmt: skip
    word = pieces(encoding)[1]
    steps = encoding.pieces[1].merging.steps
    assert word[:6] == [
        " capital", "letters, and the space in front if there is one", b" capital".hex(), "Ġcapital", [3575], False,
    ]  # fmt: skip
    assert word[7] == [[s.rank, s.at, s.rank_before, s.rank_after] for s in steps]
    assert [name for name, _, _ in stages(encoding, "none", "smollm")] == [
        "Normalise", "Control tokens", "Pre-tokenize", "Bytes", "Merge", "Ids",
    ]  # fmt: skip
    merges = sum(len(p.merging.steps) for p in encoding.pieces)
    assert [value for _, value, _ in stages(encoding, "none", "smollm")] == [
        "none", "1 found", "2 pieces", "22 bytes", f"{merges} merges", "4 tokens",
    ]  # fmt: skip
    json.dumps([message, pieces(encoding)])


def test_a_long_text_is_cut_in_the_message_and_says_so(tokenizer: Tokenizer) -> None:
    encoding = encoded(tokenizer, " the" * 2000)
    message = strip(encoding, ["typed"] * 2000)
    assert (len(message["tokens"]), message["total"]) == (MOST_TOKENS, 2000)
    assert len(pieces(encoding)) == MOST_TOKENS
    one = pieces(encoded(tokenizer, "a" * 100_000))
    assert len(json.dumps(one)) < 5000
    assert one[0][6:] == [None, None]
    assert len(one[0][0]) == MOST_SYMBOLS + 1


def test_tables_hold_the_encoders_numbers(tokenizer: Tokenizer) -> None:
    encoding = encoded(tokenizer, "The capital\r\n")
    segments = segments_of(encoding, (0, len(encoding.raw)))
    tokens = tokens_table(encoding, segments)
    assert tokens["id"].tolist() == encoding.ids == tokenizer.encode("The capital\r\n", parse_special=True)
    assert tokens["token"].tolist() == ["The", "␣capital", "␍↵"]
    assert tokens["bytes"].tolist()[-1] == "0D 0A"
    table = pieces_table(encoding)
    assert table["ids"].tolist() == ["504", "3575", "2738"]
    merges = merges_table(encoding)
    assert merges["rank"].tolist() == [s.rank for p in encoding.pieces for s in p.merging.steps]
    assert all(
        tokenizer.vocabulary.merges[rank] == pair
        for rank, pair in zip(merges["rank"], zip(merges["left"], merges["right"], strict=True), strict=True)
    )
    assert segments_table(encoding, segments)["tokens"].tolist() == [3]


def test_words_about_a_text(tokenizer: Tokenizer) -> None:
    assert summary(encoded(tokenizer, "a 🙂 🦜")).startswith("5 tokens, 5 characters, 11 bytes")
    assert summary(encoded(tokenizer, "a")) == "1 token, 1 character, 1 byte"
    cases = {" a ": "ends in a space", "a\r\n": "not made equal", "e\u0301": "NFC", "\u200b": "invisible"}
    for text, word in cases.items():
        assert any(word in note for note in notes(text)), text
    assert notes("The capital") == []


def test_the_languages_figure_and_table_agree(tokenizer: Tokenizer) -> None:
    costs, _ = costs_of(tokenizer, [("English", "Hello world"), ("<b>yours</b>", "é")])
    figure = go.Figure(costs_figure(costs, "<b>yours</b>", LIGHT))
    table = costs_table(costs)
    assert list(figure.data[0].x) == table["tokens"].tolist() == [1, 2]
    assert table["tokens per byte"].tolist() == [1 / 2, 2 / 11]
    assert "<b>" not in figure.to_json()


def test_the_heat_map_shows_the_rows_and_says_its_scale() -> None:
    rows = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    embedded = EmbeddedText((5, 6, 5), rows, "Q8_0")
    figure = go.Figure(rows_figure(embedded, 16, lambda i: f"<i>{i}", 17, LIGHT))
    heat = figure.data[0]
    assert np.array_equal(np.asarray(heat.z), rows)
    assert heat.zmax == -heat.zmin == pytest.approx(colour_limit(embedded))
    assert [label.split()[-1].rstrip("</b>") for label in heat.y] == ["16", "17", "18"]
    assert figure.layout.yaxis.autorange == "reversed"
    assert "<i>" not in figure.to_json()
    table = rows_table(embedded, str, 16)
    assert table["norm"].tolist() == pytest.approx(np.linalg.norm(rows, axis=1).tolist())
    assert np.array_equal(values_table(embedded, str, 16).iloc[:, 3:].to_numpy(), rows)


def test_neighbours_are_drawn_in_their_order() -> None:
    found = Neighbours(3, np.array([8, 9]), np.array([0.9, 0.4], np.float32), np.array([1.0, 2.0], np.float32))
    figure = go.Figure(neighbours_figure(found, lambda i: f"<{i}>", LIGHT))
    assert np.allclose(np.asarray(figure.data[0].x, float), [0.9, 0.4])
    assert list(figure.layout.yaxis.ticktext) == ["&lt;8&gt;", "&lt;9&gt;"]


def test_sentences_about_the_unembed_matrix() -> None:
    assert "read backwards" in describe_unembed(UnembedCheck(True, 67, 28, 67, 0.0))
    assert "matrix of its own (untied): 2 of 67 rows" in describe_unembed(UnembedCheck(False, 67, 28, 2, 0.5))
    row = np.arange(10, dtype=np.float32)
    assert "all 10 numbers are equal" in describe_rows(row, row, "a")
    assert "two different rows" in describe_rows(row, row + 1, "a")


def test_pages_of_rows() -> None:
    assert windows([0] * 33, 16) == [0, 16, 32]
    assert windows([], 16) == [0]
    assert [window_of(i, 33, 16) for i in (0, 15, 16, 32)] == [(0, 16), (0, 16), (16, 32), (32, 33)]
