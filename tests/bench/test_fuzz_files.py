"""A few hundred of the damaged files that the bench reads by the thousand, and that the bench would notice."""

from __future__ import annotations

import pickle

import pytest

from bench.fuzz_files import KINDS, Kind, fuzz
from miniinfer.errors import BadInputError


@pytest.mark.parametrize("name", sorted(KINDS))
def test_damaged_files_are_opened_or_refused_with_a_sentence(name: str) -> None:
    found = fuzz(KINDS[name], 200, seed=7)
    assert found.broken == []
    assert found.refused > 100
    assert found.opened > 0, "some damage is none, or every file is refused whatever it holds"


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


def test_two_lines_are_no_sentence() -> None:
    good = bytes(100)

    def read(data: bytes) -> None:
        if data != good:
            raise BadInputError("one line\nand another")

    assert fuzz(Kind(lambda: good, read), 5, seed=1).broken
