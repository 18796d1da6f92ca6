"""One tensor as a matrix that can be drawn and read: which axes became rows and columns, and which part was taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from miniinfer.errors import BadInputError
from miniinfer.trace.inside.fields import CUT, as_tensor, letters_of
from miniinfer.trace.inside.records import TensorView

if TYPE_CHECKING:
    import torch

    from miniinfer.trace.inside.inside import StepInside

MOST_BYTES = 8 * 2**20  # copied for one look; of a larger matrix the last rows that fit, and it says so


def tensor_view(inside: StepInside, name: str, value: Any, head: int | None, row: int | None) -> TensorView:
    """See StepInside.view. Raises BadInputError for what is no tensor or has no such head or row."""
    tensor = as_tensor(value)
    if tensor is None:
        raise BadInputError(f"{name} holds no numbers to draw: choose another field of this stage.")
    letters = letters_of(inside, name)
    matrix, row_unit, column_unit, part, row_start = _matrix(inside, tensor, letters.split(), head, row)
    fits = max(1, MOST_BYTES // (4 * max(1, matrix.shape[1])))
    if matrix.shape[0] > fits:
        row_start += matrix.shape[0] - fits
        part = f"{part}, the last {fits} rows".lstrip(", ")
        matrix = matrix[-fits:]
    values = np.array(matrix.float().cpu().numpy(), np.float32)
    values.setflags(write=False)
    return TensorView(name, letters, values, row_unit, row_start, column_unit, part, name in CUT)


def _matrix(
    inside: StepInside, tensor: torch.Tensor, letters: list[str], head: int | None, row: int | None
) -> tuple[torch.Tensor, str, str, str, int]:
    """The matrix, what its rows and its columns are, the part in words, and the number of the first row."""
    start = inside.rows.start
    if letters[:1] == ["K"] and "G" in letters:  # scores and patterns: [K, S, G, Tq, C]
        by_head = tensor[:, 0].flatten(0, 1)  # [H, Tq, C]
        if row is not None:
            return _row(by_head, row, 1), "head", "key position", f"position {start + row}, all heads", 0
        if head is None:
            return by_head[:, -1], "head", "key position", f"position {inside.rows.stop - 1}, all heads", 0
        return _head(by_head, head, 0), "position", "key position", f"head {head}", start
    if letters == ["K", "C", "D"]:
        if head is None:
            return tensor.transpose(0, 1).flatten(1), "position", "K·D", "all key/value heads side by side", 0
        return _head(tensor, head, 0), "position", "D", f"key/value head {head}", 0
    if letters[:1] == ["T"] and len(letters) == 3:
        if letters[1] != "1" and row is not None and head is None:
            return _row(tensor, row, 0), "head", letters[2], f"position {start + row}, all heads", 0
        if letters[1] == "1" or head is not None:
            tensor = _head(tensor, head or 0, 1)
            part = "" if letters[1] == "1" else f"head {head}"
        else:
            tensor, part = tensor.flatten(1), "all heads side by side"
        letters = ["T", letters[2] if part != "all heads side by side" else f"{letters[1]}·{letters[2]}"]
    else:
        part = ""
    if tensor.dim() == 1:
        return tensor[None], "", "index", part, 0
    tensor = tensor.reshape(tensor.shape[0], -1)
    if letters[0] != "T":
        return tensor, "sampled row", letters[-1], part, 0
    if row is not None:
        words = f"position {start + row}"
        return _row(tensor, row, 0)[None], "position", letters[-1], f"{part}, {words}".lstrip(", "), start + row
    return tensor, "position", letters[-1], part, start


def _head(tensor: torch.Tensor, head: int, axis: int) -> torch.Tensor:
    if not 0 <= head < tensor.shape[axis]:
        raise BadInputError(f"There is no head {head} here: choose one from 0 to {tensor.shape[axis] - 1}.")
    return tensor.select(axis, head)


def _row(tensor: torch.Tensor, row: int, axis: int) -> torch.Tensor:
    if not 0 <= row < tensor.shape[axis]:
        raise BadInputError(f"This step has {tensor.shape[axis]} rows; there is no row {row} among them.")
    return tensor.select(axis, row)
