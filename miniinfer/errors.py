"""The errors a user can meet: each message is one sentence that says what to do."""

from __future__ import annotations


class MiniInferError(Exception):
    """Base of every error whose text is meant for the person using the program."""


class BadInputError(MiniInferError, ValueError):
    """A value from the user is out of range or of the wrong kind."""


class ModelFileError(MiniInferError):
    """A model file or folder cannot be used; the message names the file and what is wrong with it."""


class FetchError(MiniInferError):
    """The model or a package could not be fetched; the message names the way out."""


class OutOfBlocksError(MiniInferError):
    """The KV cache cannot grow any further."""


class NoMemoryError(MiniInferError):
    """The machine or its device has no memory left for what was asked."""


class DeviceLostError(MiniInferError):
    """The device failed: a driver that was reset, a card that was taken away, an assertion on it."""


class NotFiniteError(MiniInferError):
    """A row of logits holds NaN, or nothing but minus infinity: there is no right token to draw."""
