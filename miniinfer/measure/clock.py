"""Time on a device. On the CPU a product has ended when its call returns; elsewhere it has only been queued."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

Mark = Any  # float seconds, or an event of the device


class DeviceClock:
    """CPU: perf_counter. CUDA: events in the stream. MPS: the device is waited for before the clock is read."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.name = {"cuda": "device events", "mps": "clock after synchronize"}.get(device.type, "clock")

    def mark(self) -> Mark:
        """A moment. Does not wait for the device on CUDA."""
        if self.device.type == "cuda":
            event = torch.cuda.Event(enable_timing=True)
            event.record(torch.cuda.current_stream(self.device))
            return event
        if self.device.type == "mps":
            torch.mps.synchronize()
        return time.perf_counter()

    def ms(self, start: Mark, end: Mark) -> float:
        """Milliseconds between two marks; waits on CUDA until `end` has been reached."""
        if self.device.type == "cuda":
            end.synchronize()
            return float(start.elapsed_time(end))
        return float(end - start) * 1000

    def time(self, job: Callable[[], object]) -> float:
        """Milliseconds that a job takes, on the device if there is one."""
        start = self.mark()
        job()
        return self.ms(start, self.mark())


def allocator_bytes(device: torch.device) -> int | None:
    """Bytes that the device's allocator has given out; None on the CPU, where nobody counts them."""
    if device.type == "cuda":
        return int(torch.cuda.memory_allocated(device))
    if device.type == "mps":
        return int(torch.mps.current_allocated_memory())
    return None
