"""What the file of saved runs can meet, in words: each says what to do, and nothing else stops for it."""

from __future__ import annotations

import errno

from miniinfer.errors import MiniInferError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NOT_WRITABLE = ("readonly", "read-only", "unable to open")


class StoreError(MiniInferError):
    """Saved runs cannot be read or written; the message names the file and the way out."""


class RunRefusedError(StoreError):
    """The file takes other runs, but not this one."""


def not_writable(error: Exception) -> bool:
    """The folder, or the file, may not be written here."""
    return isinstance(error, PermissionError) or any(words in str(error).lower() for words in NOT_WRITABLE)


def store_error(name: str, error: Exception) -> StoreError:
    """The sentence for what SQLite or the system has raised; one that is a sentence already stays it."""
    if isinstance(error, StoreError):
        return error
    text = str(getattr(error, "strerror", None) or error)  # of a file: without its path
    if isinstance(error, UnicodeError):
        return RunRefusedError("A run holds text that cannot be written. It goes on, but is not saved.")
    if ("disk" in text and "full" in text) or getattr(error, "errno", None) in FULL:
        way_out = "the disk is full: free some space"
    elif "disk I/O error" in text:
        way_out = "the disk is full or failing: free some space, or set MINIINFER_HOME to a folder on another disk"
    elif "locked" in text or "busy" in text:
        way_out = "another program holds it: close that one"
    elif not_writable(error):
        way_out = "it may not be written here: make its folder writable, or set MINIINFER_HOME to another folder"
    elif "not a database" in text or "malformed" in text:
        way_out = "it is damaged: move it away, and a new one is made"
    else:
        way_out = text
    going_on = "What is on screen goes on, but is not saved until then."
    return StoreError(f"{name}: {way_out}. {going_on}")
