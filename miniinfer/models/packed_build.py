"""Weights that keep the file's 4-bit blocks, and what became of every matrix: kept, or fallen back and why."""

from __future__ import annotations

import math
from dataclasses import asdict

import torch
from torch import Tensor

from miniinfer.engine.linear import Linear
from miniinfer.engine.packed import CHUNK, ROWS, Blocks, Float16Linear, Int4Linear
from miniinfer.models.build import PREPACK, Builder, Stored, undo_gguf_order
from miniinfer.models.converted.conversion import Conversion, Note
from miniinfer.models.llama import TensorSource
from miniinfer.models.report import KeptMatrix, PhaseClock

WHY = {"Q8_0": "Q8_0 has a scale for every 32 numbers, and torch's 8-bit product one for a whole row"}


class PackedBuilder(Builder):
    """Products of 4-bit blocks where every part has them, else float16, else float32. On the CPU only."""

    packed = True

    def __init__(self, source: TensorSource, clock: PhaseClock, conversion: Conversion) -> None:
        super().__init__(source, torch.device("cpu"), torch.float32, clock, conversion)
        self.kept: list[KeptMatrix] = []

    def convert(self, *parts: Stored) -> tuple[Linear, Note]:
        found = [self.blocks(part) for part in parts]
        blocks = [part for part in found if part is not None]
        rows = sum(len(part.q) for part in blocks)
        if len(blocks) == len(parts) and Int4Linear.takes(rows):
            joined = Blocks.joined(blocks)
            with self.clock.phase(PREPACK):
                packed = Int4Linear(joined)
            with self.clock.phase("compare with the file"):
                lost, whole = joined.difference()
            return self._noted(parts, packed, lost, whole, "")
        weight = self.read_joined(parts)
        with self.clock.phase(PREPACK):
            dense = Float16Linear(weight) if Float16Linear.takes(weight) else Linear(weight)
        with self.clock.phase("compare with the file"):
            pairs = zip(dense.to_dense().split(CHUNK), weight.split(CHUNK), strict=True)
            lost = sum(_squares(kept - stored) for kept, stored in pairs)
            whole = sum(_squares(stored) for stored in weight.split(CHUNK))
        dense_parts = [part.name for part, its_blocks in zip(parts, found, strict=True) if its_blocks is None]
        return self._noted(parts, dense, lost, whole, self._why(parts, dense_parts, len(weight)))

    def blocks(self, matrix: Stored) -> Blocks | None:
        """In the model's own row order."""
        blocks = self.source.blocks(matrix.name)
        if blocks is None or not matrix.num_heads:
            return blocks
        return Blocks(*(undo_gguf_order(part, matrix.num_heads) for part in blocks))

    def note(self, note: Note) -> None:
        assert note is not None
        self.kept.append(KeptMatrix(**{**note, "names": tuple(note["names"]), "stored": tuple(note["stored"])}))

    def _noted(
        self, parts: tuple[Stored, ...], linear: Linear, lost: float, whole: float, why: str
    ) -> tuple[Linear, Note]:
        names = tuple(part.name for part in parts)
        stored = tuple(dict.fromkeys(self.source.stored_as(name) for name in names))
        difference = math.sqrt(lost / whole) if whole else 0.0
        return linear, asdict(KeptMatrix(names, stored, linear.storage, linear.nbytes, difference, why))

    def _why(self, parts: tuple[Stored, ...], dense_parts: list[str], rows: int) -> str:
        if not dense_parts:
            return f"torch's 4-bit product takes rows by {ROWS}, and this matrix has {rows}"
        stored = self.source.stored_as(dense_parts[0])
        why = WHY.get(stored, f"{stored} has no 4-bit blocks of 32 numbers")
        return why if len(parts) == 1 else f"{why} ({dense_parts[0]}, of which this product is a part)"


def _squares(part: Tensor) -> float:
    return float(part.square().sum(-1).double().sum())
