"""The errors a user can meet: each message is one sentence that says what to do."""

from __future__ import annotations

import re

MOST_LETTERS = 1500
# Controls, line separators, marks that would turn the direction of what stands beside the text, and halves of pairs,
# which Python puts where a file's name is no UTF-8 and which nobody can send.
_UNRULY = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def tame(name: str) -> str:
    """A name that can stand in a sentence: <U+202E> in place of a mark that would turn the words after it around."""
    return _UNRULY.sub(lambda match: f"<U+{ord(match[0]):04X}>", name)


class MiniInferError(Exception):
    """Base of every error whose text is meant for the person using the program: one line that has an end, whatever
    stands in the names of files and the values that it quotes."""

    def __str__(self) -> str:
        said = tame(super().__str__())
        return said if len(said) <= MOST_LETTERS else f"{said[: MOST_LETTERS - 500]} … {said[-490:]}"


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
