"""Which block holds which beginning of a text. Plain Python: hashes and block ids, no numbers of the cache.

A block that is full and computed is known by a hash of its tokens and of the hash of the block before it, so equal
hashes mean equal text from the very first token on. The contents of a block that becomes free stay where they are and
can be found again, until the block is needed for something else: the one that was freed longest ago goes first.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Sequence

START = b""  # stands for the hash before the first block


def block_hash(parent: bytes, token_ids: Sequence[int]) -> bytes:
    """The hash of a full block. parent: that of the block before it, or START."""
    return hashlib.blake2b(parent + array("q", token_ids).tobytes(), digest_size=16).digest()


def extend_hashes(hashes: list[bytes], token_ids: Sequence[int], block_size: int, num_blocks: int) -> None:
    """Bring the hash chain of a sequence up to its first num_blocks full blocks; what is there already stays."""
    for i in range(len(hashes), num_blocks):
        tokens = token_ids[i * block_size : (i + 1) * block_size]
        assert len(tokens) == block_size, "only a full block has a hash"
        hashes.append(block_hash(hashes[-1] if hashes else START, tokens))


class PrefixCache:
    """At most one block for each hash, and one hash for each block. `free` holds those without an owner."""

    def __init__(self) -> None:
        self._blocks: dict[bytes, int] = {}
        self._hashes: dict[int, bytes] = {}
        self.free: OrderedDict[int, None] = OrderedDict()  # freed longest ago first

    def __contains__(self, block: int) -> bool:
        return block in self._hashes

    def hash_of(self, block: int) -> bytes | None:
        return self._hashes.get(block)

    def find(self, hashes: Iterable[bytes]) -> list[int]:
        """The blocks of the longest known beginning of this chain."""
        found = []
        for one in hashes:
            block = self._blocks.get(one)
            if block is None:
                break
            found.append(block)
        return found

    def register(self, block: int, block_hash: bytes) -> None:
        """Remember what a block holds, unless another one holds the same already."""
        if block_hash not in self._blocks and block not in self._hashes:
            self._blocks[block_hash] = block
            self._hashes[block] = block_hash

    def forget(self, block: int) -> None:
        """The block is going to be written: what it held can no longer be found."""
        known = self._hashes.pop(block, None)
        if known is not None:
            del self._blocks[known]
        self.free.pop(block, None)

    def check(self, is_free: Sequence[bool]) -> None:
        """Raise AssertionError unless hashes and blocks belong together, and `free` holds the ownerless ones."""
        assert {block: one for one, block in self._blocks.items()} == self._hashes, "a hash without its block"
        assert set(self.free) == {block for block in self._hashes if is_free[block]}, "free blocks are not listed"
