"""What the machine does to a step, in words: no memory left, or a device that is lost.

Anything else is a mistake of ours and keeps its own name.
"""

from __future__ import annotations

from typing import NoReturn

import torch

from miniinfer.errors import DeviceLostError, MiniInferError, NoMemoryError

NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "bad_alloc", "cannot allocate memory")
DEVICE = ("cuda error", "cuda driver", "device-side assert", "cublas", "cudnn", "hip error", "nccl", "mps backend")


def machine_fault(error: BaseException) -> MiniInferError | None:
    """The sentence for what no memory or a lost device has raised; None for everything else.

    torch raises RuntimeError for both, and only some of its devices have classes of their own.
    """
    if isinstance(error, MiniInferError) or not isinstance(error, RuntimeError | MemoryError):
        return None
    said = str(error.args[0]) if error.args else ""
    text = said.lower()
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or any(words in text for words in NO_MEMORY):
        return NoMemoryError(
            "There is not enough free memory for this, and nothing of it was kept: delete runs, use a shorter prompt, "
            "or close other programs, then try again."
        )
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
