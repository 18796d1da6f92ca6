"""Time on a device. On the CPU a product has ended when its call returns; elsewhere it has only been queued."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

Mark = Any  # float seconds, or an event of the device


class DeviceClock:
    """CPU: perf_counter. CUDA: events in the stream. MPS: the device is waited for before the clock is read.

    mark: a moment; does not wait for the device on CUDA. waits=False: not on MPS either, where a mark then is the
    moment at which work has been queued: for steps that nobody wants to slow down.
    """

    def __init__(self, device: torch.device, *, waits: bool = True) -> None:
        self.device = device
        self.name = {"cuda": "device events", "mps": "clock after synchronize"}.get(device.type, "clock")
        # Chosen once: a recorded step takes some 700 marks.
        mps = _after_synchronize if waits else time.perf_counter
        marks: dict[str, Callable[[], Mark]] = {"cuda": self._event, "mps": mps}
        self.mark = marks.get(device.type, time.perf_counter)

    def _event(self) -> Mark:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.device))
        return event

    def ms(self, start: Mark, end: Mark) -> float:
        """Milliseconds between two marks; waits on CUDA until `end` has been reached."""
        if isinstance(end, float):
            return (end - start) * 1000
        end.synchronize()
        return float(start.elapsed_time(end))

    def time(self, job: Callable[[], object]) -> float:
        """Milliseconds that a job takes, on the device if there is one."""
        start = self.mark()
        job()
        return self.ms(start, self.mark())


def _after_synchronize() -> Mark:
    torch.mps.synchronize()
    return time.perf_counter()


def allocator_bytes(device: torch.device) -> int | None:
    """Bytes that the device's allocator has given out; None on the CPU, where nobody counts them."""
    if device.type == "cuda":
        return int(torch.cuda.memory_allocated(device))
    if device.type == "mps":
        return int(torch.mps.current_allocated_memory())
    return None
