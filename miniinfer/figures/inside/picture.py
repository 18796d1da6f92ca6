"""A matrix made small enough to be seen: folded if it is one long row, pooled if it is large; its scale in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from miniinfer.trace.inside.records import TensorView
from miniinfer.trace.records import FloatArray

MOST_ROWS, MOST_COLUMNS = 64, 128
FOLD_FROM = 97  # a single row of this many values is folded into lines
CLIPPED_AT = 0.99  # share of the values that the colours cover when the largest are cut off


@dataclass(frozen=True)
class Picture:
    """cells [rows, columns] float32, NaN where there is nothing finite. Each stands for row_size x column_size values
    and shows the one of largest magnitude. rows, columns: number of the first value of each. folded: one long row in
    lines, one below the other; then `rows` are the indices at which lines begin."""

    cells: FloatArray
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    row_size: int
    column_size: int
    folded: bool


@dataclass(frozen=True)
class Scale:
    """Colour runs linearly from low to high. signed: both ends are equally far from 0. beyond: cells past the ends."""

    low: float
    high: float
    signed: bool
    beyond: int
    cells: int
    largest: float  # magnitude
    blank: int

    @property
    def words(self) -> str:
        found = [f"Colour: linear from {number(self.low)} to {number(self.high)}"]
        if self.beyond:
            found.append(f"{self.beyond:,} of {self.cells:,} cells lie beyond, up to {number(self.largest)} in size")
        if self.blank:
            found.append(f"{self.blank:,} grey: hidden, cut or not finite")
        return "; ".join(found) + "."


def number(value: float) -> str:
    """Four digits; a large number whole, with its thousands apart."""
    text = f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"
    return text.replace("-", "−")


def picture_of(view: TensorView, most_rows: int = MOST_ROWS, most_columns: int = MOST_COLUMNS) -> Picture:
    values = view.values
    if values.shape[0] == 1 and values.shape[1] >= FOLD_FROM:
        return _folded(view, most_rows, most_columns)
    row_size, column_size = -(-values.shape[0] // most_rows), -(-values.shape[1] // most_columns)
    cells = pooled(values, row_size, column_size, view.hidden)
    rows = tuple(view.row_start + row_size * i for i in range(cells.shape[0]))
    return Picture(cells, rows, tuple(column_size * i for i in range(cells.shape[1])), row_size, column_size, False)


def _folded(view: TensorView, most_rows: int, most_columns: int) -> Picture:
    size = view.values.shape[1]
    column_size = -(-size // (most_rows * most_columns))
    flat = pooled(view.values, 1, column_size, view.hidden)[0]
    width = next(w for w in (32, 64, most_columns) if len(flat) <= w * min(most_rows, w) or w == most_columns)
    lines = -(-len(flat) // width)
    cells = np.full(lines * width, np.nan, np.float32)
    cells[: len(flat)] = flat
    rows = tuple(i * width * column_size for i in range(lines))
    columns = tuple(i * column_size for i in range(width))
    return Picture(cells.reshape(lines, width), rows, columns, 1, column_size, True)


def pooled(values: FloatArray, row_size: int, column_size: int, hidden: bool) -> FloatArray:
    """The value of largest magnitude of each cell. NaN and infinities win over numbers and become NaN; minus infinity
    loses against everything where it means "hidden"."""
    rows, columns = -(-values.shape[0] // row_size), -(-values.shape[1] // column_size)
    padded = np.full((rows * row_size, columns * column_size), -np.inf, np.float32)
    padded[: values.shape[0], : values.shape[1]] = values
    size = np.abs(padded)
    size[np.isnan(padded)] = np.inf
    if hidden:
        size[np.isneginf(padded)] = -1
    size[values.shape[0] :] = -2
    size[:, values.shape[1] :] = -2
    shape = (rows, row_size, columns, column_size)
    by_cell = padded.reshape(shape).swapaxes(1, 2).reshape(rows, columns, -1)
    at = size.reshape(shape).swapaxes(1, 2).reshape(rows, columns, -1).argmax(-1)[..., None]
    cells = np.take_along_axis(by_cell, at, -1)[..., 0]
    return np.where(np.isfinite(cells), cells, np.nan).astype(np.float32)


def scale_of(cells: FloatArray, clip: bool) -> Scale:
    """clip: let the colours cover 99 % of the cells, if the largest would leave the others pale."""
    finite = cells[np.isfinite(cells)]
    blank = int(cells.size - finite.size)
    if not finite.size:
        return Scale(0.0, 1.0, False, 0, cells.size, 0.0, blank)
    largest = float(np.abs(finite).max())
    end = float(np.quantile(np.abs(finite), CLIPPED_AT)) if clip else largest
    if end <= 0 or largest <= 1.5 * end:
        end = largest or 1.0
    signed = bool((finite < 0).any())
    low = -end if signed else 0.0
    beyond = int(((finite < low) | (finite > end)).sum())
    return Scale(low, end, signed, beyond, int(cells.size), largest, blank)


def histogram(values: FloatArray, bins: int = 60) -> tuple[FloatArray, FloatArray]:
    """(counts [bins], edges [bins + 1]) of the finite values; empty arrays if there are none."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return np.empty(0, np.float32), np.empty(0, np.float32)
    counts, edges = np.histogram(finite.astype(np.float64), bins=bins)
    return counts.astype(np.float32), edges.astype(np.float32)
