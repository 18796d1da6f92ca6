"""A stand-in for the graphs of torch.cuda on a machine that has none. It is no device: tensors stay on the CPU.

What it shares with the real ones: a capture records the operations that torch is asked for, with the very tensors that
they read and write, and leaves nothing usable in what it allocated; a replay does these operations again in the same
memory and runs no Python of the captured function; whatever needs the host in between (a number read from a tensor, a
tensor made from a list) ends the capture with an error; the default stream cannot be captured.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

aten = torch.ops.aten
NEEDS_THE_HOST = {aten.item, aten._local_scalar_dense, aten.lift_fresh, aten.nonzero, aten.equal, aten.is_nonzero}
REFUSED = "CUDA error: operation not permitted when stream is capturing\nCompile with TORCH_USE_CUDA_DSA"


class FakeStream:
    def __init__(self, device: object = None) -> None:
        self.waited_for: list[FakeStream] = []

    def wait_stream(self, other: FakeStream) -> None:
        self.waited_for.append(other)


class FakeCuda:
    """`graphs`: all that were made, in order."""

    def __init__(self) -> None:
        self.default = self.current = FakeStream()
        self.graphs: list[FakeGraph] = []

    def install(self, monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
        for name, stand_in in {
            "Stream": FakeStream, "current_stream": lambda device=None: self.current, "stream": self.stream,
            "graph_pool_handle": object, "CUDAGraph": lambda: FakeGraph(self),
        }.items():
            monkeypatch.setattr(torch.cuda, name, stand_in)
        return self

    @contextmanager
    def stream(self, stream: FakeStream) -> Iterator[None]:
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before


class _Call(NamedTuple):
    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    made: list[tuple[int, Tensor]]  # which of its results lie in memory that the capture has allocated


class FakeGraph(TorchDispatchMode):
    def __init__(self, cuda: FakeCuda) -> None:
        super().__init__()
        self.cuda, self.replays = cuda, 0
        self._calls: list[_Call] = []
        self._valid = True
        cuda.graphs.append(self)

    def capture_begin(self, pool: object, capture_error_mode: str) -> None:
        if self.cuda.current is self.cuda.default:
            raise RuntimeError("CUDA graphs must be captured on a non-default stream.")
        self.__enter__()

    def capture_end(self) -> None:
        self.__exit__(None, None, None)
        if not self._valid:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")
        for call in self._calls:
            for _, tensor in call.made:
                tensor.fill_(float("nan") if tensor.is_floating_point() else 1)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in NEEDS_THE_HOST:
            self._valid = False
            raise RuntimeError(REFUSED)
        kwargs = kwargs or {}
        found = func(*args, **kwargs)
        read = {_storage(value) for value in tree_leaves((args, kwargs))}
        made = [
            (place, part) for place, part in enumerate(tree_leaves(found))
            if isinstance(part, Tensor) and _storage(part) not in read
        ]  # fmt: skip
        self._calls.append(_Call(func, args, kwargs, made))
        return found

    def replay(self) -> None:
        self.replays += 1
        for call in self._calls:
            found = tree_leaves(call.func(*call.args, **call.kwargs))
            for place, target in call.made:
                target.copy_(found[place])


def _storage(value: object) -> int | None:
    """Where a tensor's numbers lie; None for what is none, and for a matrix that oneDNN keeps to itself."""
    there = isinstance(value, Tensor) and value.layout is torch.strided
    return value.untyped_storage().data_ptr() if there else None
