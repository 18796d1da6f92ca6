"""What the machine does to a step, in words: no memory left, or a device that is lost.

Anything else is a mistake of ours and keeps its own name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn

import torch

from miniinfer.errors import DeviceLostError, MiniInferError, NoMemoryError
from miniinfer.free_memory import free_bytes

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.scheduler import Scheduled

NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "bad_alloc", "cannot allocate memory")
DEVICE = ("cuda error", "cuda driver", "device-side assert", "cublas", "cudnn", "hip error", "nccl", "mps backend")

NO_ROOM = (
    "There is not enough free memory for this, and nothing of it was kept: delete runs, use a shorter prompt, or close "
    "other programs, then try again."
)

SCORES = 3  # tensors of attention that are there at once
WORTH_ASKING = 64 * 2**20  # bytes; asking takes a third of a millisecond


def check_room(num_bytes: int) -> None:
    """Call before what takes much of this machine's memory. Raises NoMemoryError if it is not free: a system that gives
    out more than it has would end the process, in place of saying no."""
    free = free_bytes()
    if free is not None and num_bytes > free:
        raise NoMemoryError(NO_ROOM)


def check_step_fits(engine: Engine, scheduled: Iterable[Scheduled]) -> None:
    """Before a step's first large tensor: products, scores and weights of one layer are there at once, [H, T, C] each.
    Raises NoMemoryError."""
    pairs = sum(entry.num_tokens * entry.stop for entry in scheduled)
    needed = SCORES * engine.model_config.num_heads * pairs * engine.weights.dtype.itemsize
    if needed > WORTH_ASKING and engine.device.type == "cpu":
        check_room(needed)


def machine_fault(error: BaseException) -> MiniInferError | None:
    """The sentence for what no memory or a lost device has raised; None for everything else.

    torch raises RuntimeError for both, and only some of its devices have classes of their own.
    """
    if isinstance(error, MiniInferError) or not isinstance(error, RuntimeError | MemoryError):
        return None
    said = str(error.args[0]) if error.args else ""
    text = said.lower()
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or any(words in text for words in NO_MEMORY):
        return NoMemoryError(NO_ROOM)
    if isinstance(error, torch.AcceleratorError) or any(words in text for words in DEVICE):
        reason = next(iter(said.splitlines()), "").strip().rstrip(".")[:120] or type(error).__name__
        return DeviceLostError(
            f"The device stopped in the middle of this ({reason}), and nothing of it was kept: try again, and if that "
            "does not help, start the app again (saved runs come back) or choose the device cpu."
        )
    return None


def raise_in_words(error: BaseException) -> NoReturn:
    """For an except clause: raise the sentence for it, or the error itself."""
    if (fault := machine_fault(error)) is not None:
        raise fault from error
    raise error
