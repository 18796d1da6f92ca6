"""The file of converted weights: pieces of memory one after another, then what they are, then checksums of it all.

    body     pieces, each at a multiple of ALIGNMENT, filled up to whole BLOCKs with zeros
    footer   JSON: facts of the writer, where each piece lies, one sum for each BLOCK of the body
    tail     length of the footer (8 bytes), its SHA-256 (32), MAGIC (8)

The footer stands last, since the sums are known last. A sum is that of the block's 64-bit words: it costs no more than
reading them, and finds a torn, cut, overwritten or misplaced block. The file is made here, renamed into place when it
is whole, and never written again. No torch here: bytes are bytes.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

MAGIC = b"MIconv01"
ALIGNMENT = 4096
BLOCK = 1 << 22  # written at once: whole large pages, so that the system keeps them as such
TAIL = struct.Struct("<Q32s8s")
MAX_FOOTER_BYTES = 1 << 26


class UnusableCopyError(Exception):
    """This is no whole file of converted weights. Never shown: the weights are converted again."""


@dataclass(frozen=True)
class Footer:
    """facts: whatever the writer said. body_bytes: length of the body; sums: uint64 [blocks]."""

    facts: Mapping[str, Any]
    body_bytes: int
    sums: NDArray[np.uint64]


def block_sums(body: Bytes) -> NDArray[np.uint64]:
    """The sum of the 64-bit words of each block, modulo 2^64: [bytes] -> [blocks]; bytes: a multiple of BLOCK."""
    return np.add.reduce(body.view(np.uint64).reshape(-1, BLOCK // 8), axis=1)


def write(file: BinaryIO, facts: Mapping[str, Any], pieces: Iterable[Bytes]) -> None:
    """Write them in this order; `places` gives where they lie. Raises OSError."""
    block, filled, sums = np.zeros(BLOCK, np.uint8), 0, []

    def flush() -> None:
        nonlocal filled
        block[filled:] = 0
        file.write(block.data)
        sums.append(int(block_sums(block)[0]))
        filled = 0

    for piece in pieces:
        while len(piece):
            part = piece[: BLOCK - filled]
            block[filled : filled + len(part)] = part
            piece, filled = piece[len(part) :], filled + len(part)
            if filled == BLOCK:
                flush()
        gap = -filled % ALIGNMENT
        block[filled : filled + gap] = 0
        filled += gap
        if filled == BLOCK:
            flush()
    if filled:
        flush()
    footer = json.dumps({"facts": facts, "sums": sums}).encode()
    file.write(footer)
    file.write(TAIL.pack(len(footer), hashlib.sha256(footer).digest(), MAGIC))


def places(sizes: Iterable[int]) -> list[int]:
    """Where in the body pieces of these sizes begin."""
    found, position = [], 0
    for size in sizes:
        found.append(position)
        position += -(-size // ALIGNMENT) * ALIGNMENT
    return found


def body_bytes(sizes: Iterable[int]) -> int:
    """Of a body with pieces of these sizes."""
    return -(-sum(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes) // BLOCK) * BLOCK


def read_footer(file: BinaryIO) -> Footer:
    """Raises UnusableCopyError for anything but a whole file of this form, OSError if it cannot be read."""
    size = file.seek(0, 2)
    if size < TAIL.size:
        raise UnusableCopyError("It is too short.")
    file.seek(size - TAIL.size)
    length, digest, magic = TAIL.unpack(file.read(TAIL.size))
    whole = size - TAIL.size - length
    if magic != MAGIC or length > MAX_FOOTER_BYTES or whole <= 0 or whole % BLOCK:
        raise UnusableCopyError("It does not end as such a file does.")
    file.seek(whole)
    footer = file.read(length)
    if hashlib.sha256(footer).digest() != digest:
        raise UnusableCopyError("Its footer is damaged.")
    try:  # written by this program, to the last byte; but perhaps by a version with a slip
        content = json.loads(footer)
        facts, sums = dict(content["facts"]), np.array(content["sums"], np.uint64)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise UnusableCopyError("Its footer says something else.") from error
    if sums.shape != (whole // BLOCK,):
        raise UnusableCopyError("Its footer counts other blocks.")
    return Footer(facts, whole, sums)


def check(body: Bytes, footer: Footer) -> None:
    """Raises UnusableCopyError unless every block has its sum. Reads all of it, once, with Python's lock released."""
    if not np.array_equal(block_sums(body), footer.sums):
        raise UnusableCopyError("A block is not what was written.")


def open_copy(path: Path) -> BinaryIO:
    """Unbuffered: bytes go where they belong at once."""
    return open(path, "rb", buffering=0)
