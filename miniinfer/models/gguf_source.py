"""The tensors of a GGUF file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from miniinfer.engine.embedding import Embedding
from miniinfer.engine.packed import Blocks
from miniinfer.errors import ModelFileError
from miniinfer.models.blocks import READERS, read_blocks
from miniinfer.models.gguf import GGUFHeader
from miniinfer.models.llama import GGUF_NAMES
from miniinfer.models.report import PhaseClock
from miniinfer.models.tensor_types import TensorType, dequantise


class GGUFSource:
    """A TensorSource over an open file. Bytes are read, not mapped: a file that shrinks meanwhile must not kill us."""

    names = GGUF_NAMES
    permuted_qk = True

    def __init__(self, header: GGUFHeader, file: BinaryIO, clock: PhaseClock) -> None:
        self.path = header.path
        self._header = header
        self._file = file
        self._clock = clock

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {info.name: info.shape for info in self._header.tensors.values()}

    def read(self, name: str) -> Tensor:
        info = self._header.tensors[name]
        rows = self._stored_rows(name)
        with self._clock.phase("dequantise"):
            return torch.from_numpy(dequantise(rows, info.kind)).view(info.shape)

    def blocks(self, name: str) -> Blocks | None:
        kind = self._header.tensors[name].kind
        if kind.name not in READERS:
            return None
        rows = self._stored_rows(name)
        with self._clock.phase("read blocks"):
            return read_blocks(rows, kind)

    def stored_as(self, name: str) -> str:
        return self._header.tensors[name].kind.name

    def stored_bytes(self, name: str) -> int:
        return self._header.tensors[name].nbytes

    def embedding(self, name: str, dtype: torch.dtype) -> Embedding:
        rows, kind = self._stored_rows(name), self._header.tensors[name].kind
        return Embedding(lambda ids: _lookup(rows, kind, ids, dtype), rows.nbytes, kind.name, torch.from_numpy(rows))

    def _stored_rows(self, name: str) -> NDArray[np.uint8]:
        """The tensor's bytes [rows, bytes per row] (one row for a vector)."""
        info = self._header.tensors[name]
        with self._clock.phase("read"):
            self._file.seek(info.offset)
            stored = np.fromfile(self._file, np.uint8, info.nbytes)
        if stored.size != info.nbytes:
            raise ModelFileError(f"{self.path.name} became shorter while it was read ({name}): try again.")
        return stored.reshape(-1, info.kind.row_bytes(info.shape[-1]))


def _lookup(rows: NDArray[np.uint8], kind: TensorType, ids: Tensor, dtype: torch.dtype) -> Tensor:
    """Rows of the embedding: ids [T] -> [T, E]. Equal, bit for bit, to the same rows of the whole matrix."""
    return torch.from_numpy(dequantise(rows[ids.numpy()], kind)).to(dtype)
