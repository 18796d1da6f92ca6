"""How many threads torch has: fewer while small work is done, and how many it has else.

Torch counts for each thread of a program, but a new one begins with what was set last, wherever that was. One that
first uses torch while another has lowered the count would keep the low one, and must not be asked how many there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_usual: int | None = None  # what the thread had that lowered the count last


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch has one thread in here: for work so small that waking a second one, which then waits for more and takes a
    core from whoever shows the result, costs more than it gives."""
    global _usual
    before = torch.get_num_threads()
    if before == 1:  # or this thread would tell later ones to begin with that
        yield
        return
    _usual = before
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def usual_threads() -> int:
    """Those that torch has outside `one_thread`, whoever asks."""
    here = torch.get_num_threads()
    return here if here > 1 else _usual or here
