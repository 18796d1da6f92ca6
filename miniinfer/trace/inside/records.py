"""What is seen inside a step, as plain Python and numpy: figures read it without torch. Shape letters: config.py."""

from __future__ import annotations

from dataclasses import dataclass

from miniinfer.trace.inside.source_lines import SourceText
from miniinfer.trace.records import FloatArray


@dataclass(frozen=True)
class TensorFacts:
    """Over all values: norm, smallest, largest and mean of those that are finite (NaN if none is), and how many are
    not. num_hidden: minus infinities that stand for "must not look" or "cannot be drawn"; they are not in num_inf."""

    letters: str  # "T H D"
    shape: tuple[int, ...]
    dtype: str
    count: int
    norm: float
    smallest: float
    largest: float
    mean: float
    num_nan: int
    num_inf: int
    num_hidden: int

    @property
    def names(self) -> bool:
        """The numbers name things (ids, positions, slots), so a norm or a mean of them says nothing."""
        return self.dtype.startswith("int")


@dataclass(frozen=True)
class FieldLook:
    """One field that a stage read or wrote. text: what it holds where it is no tensor. heads: how many one can choose
    from, 0 if it has none; has_rows: it has one row for each token of the step."""

    role: str  # "reads" or "writes"
    name: str
    facts: TensorFacts | None
    text: str
    heads: int = 0
    has_rows: bool = False


@dataclass(frozen=True)
class StageLook:
    """The stage that just ran. sources: its own function first, then those of the engine that it called."""

    pc: int
    name: str
    layer: int | None
    sentence: str
    formula: str
    fields: tuple[FieldLook, ...]
    sources: tuple[SourceText, ...]

    def field(self, role: str, name: str) -> FieldLook | None:
        return next((f for f in self.fields if (f.role, f.name) == (role, name)), None)


@dataclass(frozen=True)
class TensorView:
    """values [rows, columns] float32. row_start: number of the first row, in units of `row_unit`; column_unit likewise.

    part: which part of the tensor this is, in words. hidden: minus infinity means "must not look" or "cut" in it.
    """

    name: str
    letters: str
    values: FloatArray
    row_unit: str
    row_start: int
    column_unit: str
    part: str
    hidden: bool
