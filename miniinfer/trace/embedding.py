"""The embedding matrix from both of its ends: the rows that ids select, and the unembed product, which reads it back.

Records are numpy; making them touches tensors, so that happens in the engine's thread. Rows are what the model computes
with: numbers, whatever the storage type of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from miniinfer.errors import BadInputError
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.parts import Parts
from miniinfer.trace.records import FloatArray

if TYPE_CHECKING:
    import torch

    from miniinfer.engine.weights import ModelLike

NOWHERE = -2.0  # in place of a cosine, below all of them
CHUNK = 4096  # rows of the matrix that are turned into numbers at a time


@dataclass(frozen=True)
class EmbeddedText:
    """ids: [T]. rows: [T, E] float32, row i the matrix's row ids[i]: what enters layer 0. storage: of the matrix."""

    ids: tuple[int, ...]
    rows: FloatArray
    storage: str

    @property
    def norms(self) -> FloatArray:
        """[T] the length of each row, L2."""
        norms: FloatArray = np.linalg.norm(self.rows, axis=1)
        return norms


@dataclass(frozen=True)
class Neighbours:
    """The rows of the whole vocabulary that point most nearly where row token_id points, the nearest first, without
    itself. cosines, norms: [n]."""

    token_id: int
    ids: NDArray[np.int64]
    cosines: FloatArray
    norms: FloatArray


@dataclass(frozen=True)
class UnembedCheck:
    """The embedding compared with the unembed matrix, row by row. tied: what the model file says.

    equal_rows: of the V rows, how many are the same to the last bit. largest_difference: of any two numbers.
    """

    tied: bool
    vocab_size: int
    hidden_size: int
    equal_rows: int
    largest_difference: float

    @property
    def same(self) -> bool:
        """Every number of one is that of the other."""
        return self.equal_rows == self.vocab_size


@dataclass(frozen=True)
class MatrixFacts:
    """What is found by reading both matrices once. norms: [V] the length of each row of the embedding, L2."""

    norms: FloatArray
    check: UnembedCheck


@dataclass(frozen=True)
class Backwards:
    """One logit of a step: as the step had it, and as the product of final-norm vector and embedding row."""

    step: int
    token_id: int
    logit: float
    product: float


def embed_ids(model: ModelLike, ids: Sequence[int]) -> EmbeddedText:
    """The rows of these ids. Raises BadInputError for an id that has none."""
    wrong = next((token_id for token_id in ids if not 0 <= token_id < model.config.vocab_size), None)
    if wrong is not None:
        raise BadInputError(f"There is no row {wrong}: the embedding has {model.config.vocab_size} rows.")
    embedding = model.weights.embedding
    rows = np.array(_rows(model, ids).cpu().numpy(), np.float32)
    rows.flags.writeable = False
    return EmbeddedText(tuple(ids), rows, embedding.storage)


def read_matrices(model: ModelLike) -> Parts[MatrixFacts]:
    """Both matrices, whole, once: yields the share that is read, so that others' steps may come in between."""
    import torch

    weights, config = model.weights, model.config
    unembed = weights.unembed.to_dense()
    norms, equal, largest = [], 0, 0.0
    for start, rows in _chunks(model):
        norms.append(rows.norm(dim=1))
        difference = (rows - unembed[start : start + len(rows)].float()).abs().amax(dim=1)
        equal += int((difference == 0).sum())
        largest = max(largest, float(difference.max()))
        yield (start + len(rows)) / config.vocab_size
    check = UnembedCheck(config.tied, config.vocab_size, config.hidden_size, equal, largest)
    return MatrixFacts(torch.cat(norms).cpu().numpy(), check)


def neighbours(model: ModelLike, token_id: int, count: int, facts: MatrixFacts) -> Neighbours:
    """By cosine, over all V rows but those of zeros, which have no direction: next to such a row there is nothing.

    One product with the unembed matrix where its rows are the embedding's, to the last bit, in float32; else with the
    embedding's own rows, in pieces.
    """
    import torch

    mine = _rows(model, [token_id])
    mine = mine / mine.norm()
    if facts.check.same and model.weights.dtype == torch.float32:
        products = model.weights.unembed(mine)[0]
    else:
        products = torch.cat([rows @ mine[0] for _, rows in _chunks(model)])
    norms = torch.from_numpy(facts.norms).to(products.device)
    cosines = torch.nan_to_num(products / norms, nan=NOWHERE)
    cosines[token_id] = NOWHERE
    found = torch.topk(cosines, min(count, int((cosines > NOWHERE).sum())))
    ids = found.indices.cpu().numpy()
    return Neighbours(token_id, ids, found.values.cpu().numpy(), facts.norms[ids])


def unembed_row(model: ModelLike, token_id: int, facts: MatrixFacts) -> FloatArray:
    """[E] float32: the row whose product with the final-norm vector is this token's logit. Where both matrices were
    found equal to the last bit it is read from the embedding: a packed matrix gives no single row away."""
    if facts.check.same:
        row: FloatArray = _rows(model, [token_id])[0].cpu().numpy().copy()
    else:
        row = model.weights.unembed.to_dense()[token_id].float().cpu().numpy().copy()
    return row


def backwards(run: LiveRun, step: int) -> Backwards | None:
    """The chosen token's logit at this step, taken apart; None where a step chose none."""
    if not 1 <= step <= len(run.steps):
        return None
    meta = run.steps[step - 1]
    if meta.token_id is None:
        return None
    position = meta.context_len - 1
    logit = float(run.logits_at(position)[meta.token_id])
    row = embed_ids(run.engine.model, [meta.token_id]).rows[0]
    return Backwards(step, meta.token_id, logit, float(run.final_norm_at(position) @ row))


def _rows(model: ModelLike, ids: Sequence[int]) -> torch.Tensor:
    """[T, E] float32."""
    import torch

    return model.weights.embedding(torch.tensor(ids, dtype=torch.int64, device=model.weights.device)).float()


def _chunks(model: ModelLike) -> Iterator[tuple[int, torch.Tensor]]:
    """All rows: (id of the first, [n, E] float32). Never all at once: they would be four times the stored matrix."""
    size = model.config.vocab_size
    for start in range(0, size, CHUNK):
        yield start, _rows(model, range(start, min(start + CHUNK, size)))
