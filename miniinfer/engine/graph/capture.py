"""How a stage is kept, so that it can be run again into the same memory: as it is, or as a captured CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

Fields = dict[str, Tensor | tuple[Tensor, ...]]  # what a stage writes, by the name of the field
Job = Callable[[], Fields]  # runs a stage on inputs that always lie in the same place
WARM_UP = 2  # runs before the capture: libraries set themselves up, and choose their kernels
TOLERANCE = 0.02  # of the largest number of a field: two digits of bfloat16


class CaptureError(RuntimeError):
    """A stage could not be captured. Its text says why, in a sentence; the readable program goes on."""


@dataclass(frozen=True)
class KeptStage:
    """fields: where the stage writes, always the same tensors. run: compute them from what lies in the inputs now."""

    fields: Fields
    run: Callable[[], None]


Keep = Callable[[Job], KeptStage]  # runs the job too: its fields hold what it computes now


def keep_plain(job: Job) -> KeptStage:
    """Any device: the stage runs again, and what it gives is copied to where the first run has left it."""
    fields = job()

    def run() -> None:
        for name, value in job().items():
            for target, part in zip(tensors_of(fields[name]), tensors_of(value), strict=True):
                if target is not part:  # a stage may hand on one of its inputs
                    target.copy_(part)

    return KeptStage(fields, run)


class CudaCapture:
    """CUDA: the kernels of a stage are recorded once, and one call starts them all.

    The graphs of one step share a pool of memory, and what a captured stage allocates stays where it is. They are
    replayed in the order in which they were captured, so what one leaves over another may use.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, job: Job) -> KeptStage:
        """Raises CaptureError."""
        try:
            return self._captured(job)
        except RuntimeError as error:
            said = next(iter(str(error).splitlines()), "").strip().rstrip(".")[:120] or type(error).__name__
            raise CaptureError(
                f"A decode step could not be captured as a graph ({said}), so torch computes stage by stage."
            ) from error

    def _captured(self, job: Job) -> KeptStage:
        with self._aside():  # never in the stream in which everything else runs
            for _ in range(WARM_UP):
                wanted = job()
        graph = torch.cuda.CUDAGraph()
        with self._aside():
            # thread_local: another thread may be loading a model meanwhile, and may allocate.
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                fields = job()
            finally:
                graph.capture_end()
        graph.replay()  # a capture computes nothing
        differing = [name for name, value in fields.items() if not agree(value, wanted[name])]
        if differing:
            raise CaptureError(f"its {' and '.join(differing)} came out differently")
        return KeptStage(fields, graph.replay)

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """In a stream of its own: behind all that was asked for before, and before all that will be."""
        here = torch.cuda.current_stream(self.device)
        self._stream.wait_stream(here)
        with torch.cuda.stream(self._stream):
            yield
        here.wait_stream(self._stream)


def keep_on(device: torch.device) -> Keep:
    """What keeps the stages of one step's memory on this device."""
    return CudaCapture(device) if device.type == "cuda" else keep_plain


def tensors_of(value: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return value if isinstance(value, tuple) else (value,)


def agree(found: Tensor | tuple[Tensor, ...], wanted: Tensor | tuple[Tensor, ...]) -> bool:
    """Whether two runs of a stage gave the same, but for rounding. Waits for the device."""
    for a, b in zip(tensors_of(found), tensors_of(wanted), strict=True):
        largest = float(b.float().nan_to_num(0, 0, 0).abs().amax())  # of those that are finite
        if not torch.allclose(a.float(), b.float(), rtol=TOLERANCE, atol=TOLERANCE * largest, equal_nan=True):
            return False
    return True
