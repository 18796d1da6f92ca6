"""The embedding: one row of the matrix [V, E] for each token id.

Only the rows that are asked for are read, so the matrix may stay in the storage type of its file (Q8_0, say) and be
turned into numbers row by row. `lookup` hides which of the two it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Embedding:
    """lookup: ids [T] (int64) -> rows [T, E] in the model's dtype. nbytes: memory held, in bytes. storage: its type.
    stored: the rows as the file has them, uint8 [V, bytes of a row], where they are kept so."""

    lookup: Callable[[Tensor], Tensor]
    nbytes: int
    storage: str
    stored: Tensor | None = None

    def __call__(self, ids: Tensor) -> Tensor:
        return self.lookup(ids)

    @classmethod
    def dense(cls, matrix: Tensor) -> Embedding:
        """From a matrix [V, E] that is kept as it is. Off the CPU the tied unembed product uses the same memory."""

        def lookup(ids: Tensor) -> Tensor:
            return matrix.index_select(0, ids)

        return cls(lookup, matrix.nbytes, str(matrix.dtype).removeprefix("torch."))
