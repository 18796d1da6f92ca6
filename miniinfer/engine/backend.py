"""Which program computes: plain torch, or one that stands in for some of its stages with the same fields."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
from torch import Tensor

from miniinfer.engine.groups import GROUP_COST
from miniinfer.engine.stage import Stage
from miniinfer.engine.weights import ModelLike, Weights


class Backend(Protocol):
    """What an engine asks before its first step, and a recorder in a prefill. Programs and weights are shared by
    engines and never written."""

    @property
    def name(self) -> str:
        """A key of config.BACKENDS."""
        ...

    def program(self, program: tuple[Stage, ...]) -> tuple[Stage, ...]:
        """The same stages, by name and layer, with the functions that shall run."""
        ...

    def weights(self, weights: Weights) -> Weights:
        """The same weights behind the products that shall run."""
        ...

    def threads(self, rows: int) -> AbstractContextManager[object]:
        """What each piece of a step of at most so many rows runs in: it says how many threads torch has meanwhile."""
        ...

    def largest_in_cells(self, rows: Tensor, start: int, cell: int) -> Tensor:
        """[H, n, C], rows of positions start .. start + n - 1 -> [H, cells that they touch, ceil(C / cell)] float32 on
        the CPU: the largest number within each cell. What a recorder keeps of a prompt's attention."""
        ...

    @property
    def group_cost(self) -> int:
        """Padded positions that take as long here as the calls of one more attention group (groups.py)."""
        ...


class TorchBackend:
    """The readable program, always there, and the reference of every other one."""

    name = "torch"
    group_cost = GROUP_COST

    def program(self, program: tuple[Stage, ...]) -> tuple[Stage, ...]:
        return program

    def weights(self, weights: Weights) -> Weights:
        return weights

    def threads(self, rows: int) -> AbstractContextManager[object]:
        return nullcontext()

    def largest_in_cells(self, rows: Tensor, start: int, cell: int) -> Tensor:
        return largest_in_cells(rows, start, cell)


def largest_in_cells(rows: Tensor, start: int, cell: int) -> Tensor:
    """Backend.largest_in_cells by torch. Rows first: they lie side by side in memory, so that needs one pass at its
    full speed."""
    count = rows.shape[1]
    edges = [0, *range(cell - start % cell, count, cell), count]
    pooled = torch.stack([rows[:, low:high].amax(1) for low, high in itertools.pairwise(edges)], dim=1)
    whole = rows.shape[-1] // cell * cell
    parts = [pooled[..., :whole].unflatten(-1, (-1, cell)).amax(-1)] if whole else []
    if whole < rows.shape[-1]:
        parts.append(pooled[..., whole:].amax(-1, keepdim=True))
    return torch.cat(parts, -1).float().cpu()


TORCH = TorchBackend()

ChooseBackend = Callable[[Weights], Backend]  # asked whenever an engine is made


def always_torch(weights: Weights) -> Backend:
    return TORCH


def backend_of(model: ModelLike) -> Backend:
    """What the model's engines compute with from now on: its own choice if it has one, else torch."""
    choose: ChooseBackend = getattr(model, "choose_backend", always_torch)
    return choose(model.weights)
