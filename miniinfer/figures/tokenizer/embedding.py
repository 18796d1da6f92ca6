"""The embedding as tables and sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from miniinfer.trace.embedding import Backwards, EmbeddedText, Neighbours, UnembedCheck
from miniinfer.trace.records import FloatArray

TokenText = Callable[[int], str]
SHOWN = 8  # numbers of a row that are written out
ROUNDING = 1e-4  # of a logit: what two ways of adding the same float32 products may differ by


def rows_table(embedded: EmbeddedText, text: TokenText, first: int = 0) -> pd.DataFrame:
    """One row a token: which row of the matrix, how long, its mean, spread and ends."""
    rows = embedded.rows
    return pd.DataFrame({
        "position": np.arange(first, first + len(embedded.ids)), "token": [text(i) for i in embedded.ids],
        "row of the matrix": embedded.ids, "norm": embedded.norms, "mean": rows.mean(1), "spread": rows.std(1),
        "smallest": rows.min(1), "largest": rows.max(1),
    })  # fmt: skip


def values_table(embedded: EmbeddedText, text: TokenText, first: int = 0) -> pd.DataFrame:
    """X in numbers: one row a token, one column a dimension."""
    head = pd.DataFrame({
        "position": np.arange(first, first + len(embedded.ids)), "token": [text(i) for i in embedded.ids],
        "id": embedded.ids,
    })  # fmt: skip
    values = pd.DataFrame(embedded.rows, columns=[str(i) for i in range(embedded.rows.shape[1])])
    return pd.concat([head, values], axis=1)


def neighbours_table(found: Neighbours, text: TokenText) -> pd.DataFrame:
    """One row a neighbour, the nearest first."""
    return pd.DataFrame({
        "id": found.ids, "token": [text(int(i)) for i in found.ids], "cosine": found.cosines, "norm": found.norms,
    })


def row_pair_table(embedding_row: FloatArray, unembed_row: FloatArray) -> pd.DataFrame:
    """The same token's row of both matrices, number by number."""
    return pd.DataFrame({
        "dimension": np.arange(len(embedding_row)), "embedding": embedding_row, "unembed": unembed_row,
        "difference": embedding_row - unembed_row,
    })  # fmt: skip


def describe_rows(embedding_row: FloatArray, unembed_row: FloatArray, token: str) -> str:
    """The first numbers of both rows."""
    first = [", ".join(f"{value:.5f}" for value in row[:SHOWN]) for row in (embedding_row, unembed_row)]
    same = bool((embedding_row == unembed_row).all())
    verdict = f"all {len(unembed_row):,} numbers are equal" if same else "they are two different rows"
    return (
        f"The row of “{token}” in the embedding: {first[0]}, …\n"
        f"Its row in the unembed matrix: {first[1]}, …; {verdict}."
    )


def describe_unembed(check: UnembedCheck) -> str:
    """Whether the last matrix is the first one read backwards."""
    size = f"{check.vocab_size:,} × {check.hidden_size:,}"
    compared = f"{check.equal_rows:,} of {check.vocab_size:,} rows are equal to the last bit"
    if check.tied:
        return (
            f"The unembed matrix is this same matrix read backwards (tied, as the model's file says): {compared}, the "
            f"largest difference is {check.largest_difference:g}. In: an id selects one of the {size} rows. Out: the "
            "logit of a token is the product of the final-norm vector with that token's row."
        )
    return (
        f"The model's file has an unembed matrix of its own (untied): {compared}, the largest difference is "
        f"{check.largest_difference:.3g}. Both are {size}; a row says what a token is to the model when it goes in, "
        "and a row of the other what has to stand in the final-norm vector for the token to come out."
    )


def describe_backwards(found: Backwards, text: TokenText, tied: bool, dtype: str) -> str:
    """One logit, taken apart. dtype: what the step computed it in."""
    told = (
        f"Step {found.step} chose “{text(found.token_id)}” with the logit {found.logit:.4f}; final-norm vector times "
        f"row {found.token_id:,} of the embedding"
    )
    if not tied:
        return f"{told} would be {found.product:.4f}: here another matrix makes the logits."
    rounded = abs(found.logit - found.product) > ROUNDING * max(1.0, abs(found.logit))
    return f"{told} is {found.product:.4f}{f' (the step computed in {dtype}, which rounds)' if rounded else ''}."


def window_of(position: int, count: int, size: int) -> tuple[int, int]:
    """The rows first to stop - 1 of a page of `size` rows that holds this position."""
    first = position // size * size
    return first, min(count, first + size)


def windows(ids: Sequence[int], size: int) -> list[int]:
    """First positions of all pages."""
    return list(range(0, len(ids), size)) or [0]
