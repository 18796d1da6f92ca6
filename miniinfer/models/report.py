"""What loading a model found out: the facts and where each comes from, memory, and the time of each phase."""

from __future__ import annotations

import reprlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from miniinfer.checks import as_float
from miniinfer.errors import ModelFileError

V = TypeVar("V")

# A reason that begins so goes on from the file's name: "x.gguf has the architecture ...".
VERBS = frozenset(("has", "is", "must", "names", "rotates", "says", "scales", "sets"))


@dataclass(frozen=True)
class Fact:
    """One fact of a model. read: a key of the file says so. derived: it follows from other facts or an absent key."""

    key: str
    value: str
    how: Literal["read", "derived"]
    why: str  # the file's own key, or the rule


@dataclass(frozen=True)
class KeptMatrix:
    """How one product's matrix is kept in packed mode. names: the tensors that were joined in it.

    difference: root mean square of (kept - file) over that of the file's own numbers, computed; the same for a matrix
    that fell back. why: the reason for a fallback, empty where blocks were kept.
    """

    names: tuple[str, ...]
    stored: tuple[str, ...]  # their storage types in the file
    kept: str
    nbytes: int
    difference: float
    why: str


@dataclass(frozen=True)
class LoadReport:
    """facts in the order in which they were met; memory in bytes by kind; seconds by phase, measured; kept: every
    matrix in packed mode, else empty."""

    facts: tuple[Fact, ...]
    tensor_types: Mapping[str, int]  # storage type -> number of tensors in the file
    memory_bytes: Mapping[str, int]
    seconds: Mapping[str, float]
    notes: tuple[str, ...]
    kept: tuple[KeptMatrix, ...] = ()


@dataclass
class PhaseClock:
    """Adds up the wall time of named phases, in seconds."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


class FactReader:
    """Reads typed values from the keys of a model file, keeping a Fact for each and notes for what is unusual."""

    def __init__(self, path: Path, keys: Mapping[str, object]) -> None:
        self.path = path
        self.keys = keys
        self.facts: list[Fact] = []
        self.notes: list[str] = []

    def error(self, reason: str) -> ModelFileError:
        says_it_of_the_file = reason.partition(" ")[0] in VERBS
        return ModelFileError(f"{self.path.name}{' ' if says_it_of_the_file else ': '}{reason}.")

    def has(self, key: str) -> bool:
        """True if the key is there and not null."""
        return self.keys.get(key) is not None

    def whole(self, fact: str, key: str) -> int:
        value = self._required(key)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(f"{key} must be a whole number, not {reprlib.repr(value)}")
        return self.read(fact, key, value)

    def real(self, fact: str, key: str) -> float:
        value = self._required(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(f"{key} must be a number, not {reprlib.repr(value)}")
        return self.read(fact, key, as_float(value))

    def text(self, fact: str, key: str) -> str:
        value = self._required(key)
        if not isinstance(value, str):
            raise self.error(f"{key} must be text, not {reprlib.repr(value)}")
        return self.read(fact, key, value)

    def truth(self, fact: str, key: str) -> bool:
        value = self._required(key)
        if not isinstance(value, bool):
            raise self.error(f"{key} must be true or false, not {reprlib.repr(value)}")
        return self.read(fact, key, value)

    def read(self, fact: str, key: str, value: V) -> V:
        self.facts.append(Fact(fact, str(value), "read", key))
        return value

    def derive(self, fact: str, value: V, why: str) -> V:
        self.facts.append(Fact(fact, str(value), "derived", why))
        return value

    def _required(self, key: str) -> object:
        if not self.has(key):
            raise self.error(f"the key {key} is missing, and MiniInfer guesses no value for it")
        return self.keys[key]
