"""A few hundred of the damaged files that the bench reads by the thousand, and that the bench would notice."""

from __future__ import annotations

import pickle
import random
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.fuzz_files import KINDS, Kind, fuzz
from bench.fuzz_mutations import IMPOSTORS
from miniinfer.errors import BadInputError, MiniInferError

# Models are loaded and stepped where that is possible; a link that leads nowhere mostly opens the example.
FEWER = {name: 40 for name in KINDS if name not in ("run file", "saved run")}
LEAST = {"link": 0.05, "tokenizer_config.json": 0.2}


@pytest.mark.parametrize("name", sorted(KINDS))
def test_damaged_files_are_opened_or_refused_with_a_sentence(name: str) -> None:
    files = FEWER.get(name, 200)
    found = fuzz(KINDS[name], files, seed=7)
    assert found.broken == []
    assert found.refused > files * LEAST.get(name, 0.5)
    assert found.opened > 0, "some damage is none, or every file is refused whatever it holds"


@pytest.mark.parametrize("name", ["GGUF", "safetensors"])
def test_a_file_that_is_cut_at_any_4_kib_is_refused(name: str) -> None:
    found = fuzz(KINDS[name], 0, seed=1, pages=True)
    assert (found.broken, found.opened) == ([], 0)
    assert found.refused > 100


def test_what_a_stranger_put_in_place_of_a_file_is_named() -> None:
    for kind in ("GGUF", "safetensors", "tokenizer.json"):
        for content in IMPOSTORS:
            placed = KINDS[kind].place(content)
            with pytest.raises(MiniInferError) as caught:
                KINDS[kind].read(placed)
            assert "\n" not in str(caught.value)
    assert not Path("/tm").exists(), "the pickle was not opened"


@settings(max_examples=150, deadline=None)
@given(dice=st.randoms(use_true_random=False), way=st.integers(0, 20))
def test_any_chat_template_is_rendered_or_refused(dice: random.Random, way: int) -> None:
    kind = KINDS["chat template"]
    data = kind.ways[way % len(kind.ways)](dice, kind.good())
    with suppress(MiniInferError):
        kind.read(data)


@pytest.mark.parametrize(
    ("read", "what"),
    [
        (lambda data: pickle.loads(b"cos\nsystem\n."), "pickle.find_class"),
        (lambda data: eval("1"), "compile"),
        (lambda data: [][1], "IndexError"),
    ],
)
def test_a_reader_that_runs_something_or_crashes_is_found(read, what) -> None:  # type: ignore[no-untyped-def]
    first = []

    def after_the_good_one(data: bytes) -> None:
        if not first:
            first.append(data)  # the good file is read once before
        else:
            read(data)

    found = fuzz(Kind(lambda: bytes(100), after_the_good_one), 3, seed=1)
    assert len(found.broken) == 3
    assert what in found.broken[0][1]


def test_a_word_is_no_sentence() -> None:
    good = bytes(100)

    def read(data: bytes) -> None:
        if data != good:
            raise BadInputError("too short")

    assert fuzz(Kind(lambda: good, read), 5, seed=1).broken
