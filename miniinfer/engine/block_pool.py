"""Who owns which block of the KV cache. Plain Python: it counts, the numbers themselves lie in kv_cache.

A block holds P positions of every layer. Sequences share a block after a fork or a prefix hit; its `ref_count` is the
number of block tables it stands in. Free blocks have ref_count 0; some of them are kept for whoever comes with the same
beginning (prefix_cache.py), and are used for something else only when nothing else is left. The pool begins empty and
grows by chunks up to `max_blocks`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from miniinfer.engine.prefix_cache import PrefixCache
from miniinfer.errors import OutOfBlocksError


@dataclass(frozen=True)
class BlockCopy:
    """A copy-on-write: sequence seq_id was about to write from position `position` on, and block `source` at place
    `index` of its table had other owners. It got `target` in its stead, with a copy of the first `num_positions` slots
    (those that the step writes included) and zeros behind them."""

    seq_id: str
    position: int
    index: int
    source: int
    target: int
    num_positions: int


class BlockPool:
    def __init__(self, chunk_blocks: int, max_blocks: int) -> None:
        self.chunk_blocks = chunk_blocks
        self.max_blocks = max_blocks
        self.ref_counts: list[int] = []
        self.num_used = 0
        self.version = 0  # rises whenever blocks become shared, for they must be copied before they are written
        self.prefixes = PrefixCache()

    @property
    def num_blocks(self) -> int:
        """Blocks that exist, used or free."""
        return len(self.ref_counts)

    @property
    def num_free(self) -> int:
        return self.num_blocks - self.num_used

    @property
    def num_available(self) -> int:
        """Blocks that can still be handed out: the free ones and those the pool may grow by."""
        return self.max_blocks - self.num_used

    def is_shared(self, block: int) -> bool:
        return self.ref_counts[block] > 1

    def alloc(self, after: int | None = None) -> int:
        """A free block, now with one owner: the right neighbour of `after` if it is empty, for a gather is quicker over
        neighbours. Raises OutOfBlocksError."""
        if self.num_free == len(self.prefixes.free) and self.num_blocks < self.max_blocks:
            self._grow()
        if self.num_free == 0:
            raise OutOfBlocksError(
                f"All {self.max_blocks} blocks of the KV cache are in use: release or abort a run, "
                "or allow more blocks (max_blocks)."
            )
        if self.num_free == len(self.prefixes.free):
            block = next(iter(self.prefixes.free))  # nothing is empty: the one freed longest ago loses its contents
            self.prefixes.forget(block)
        elif after is not None and after + 1 < self.num_blocks and self._is_empty(after + 1):
            block = after + 1
        else:
            block = self._place_to_start()
        self.ref_counts[block] = 1
        self.num_used += 1
        return block

    def share(self, blocks: Iterable[int]) -> None:
        """One more owner for each of these used blocks."""
        for block in blocks:
            assert self.ref_counts[block] > 0, f"block {block} is free and cannot be shared"
            self.ref_counts[block] += 1
        self.version += 1

    def take_cached(self, blocks: Iterable[int]) -> None:
        """One more owner for each of these blocks, which a prefix hit has found; those that were free are used now."""
        for block in blocks:
            assert block in self.prefixes, f"block {block} is not in the prefix cache"
            self.num_used += self.ref_counts[block] == 0
            self.prefixes.free.pop(block, None)
            self.ref_counts[block] += 1
        self.version += 1

    def release(self, blocks: Sequence[int]) -> None:
        """One owner less for each; a block without owners is free. The last block is freed first, so that of a cached
        beginning the end is lost before the start."""
        for block in reversed(blocks):
            assert self.ref_counts[block] > 0, f"block {block} is free already"
            self.ref_counts[block] -= 1
            if self.ref_counts[block] == 0:
                self.num_used -= 1
                if block in self.prefixes:
                    self.prefixes.free[block] = None

    def check(self, tables: Iterable[Sequence[int]]) -> None:
        """Raise AssertionError unless the reference counts equal the entries of these tables, which must be all tables
        there are, free plus used blocks equal all blocks, and the prefix cache knows which of its blocks are free."""
        entries: Counter[int] = Counter()
        for table in tables:
            assert len(set(table)) == len(table), f"a block stands twice in the table {list(table)}"
            entries.update(table)
        for block, count in enumerate(self.ref_counts):
            assert count == entries[block], f"block {block} has ref_count {count} but {entries[block]} table entries"
        assert all(0 <= block < self.num_blocks for block in entries), "a table names a block that does not exist"
        assert self.num_used == sum(count > 0 for count in self.ref_counts)
        assert self.num_used + self.num_free == self.num_blocks <= self.max_blocks
        self.prefixes.check([count == 0 for count in self.ref_counts])

    def _grow(self) -> None:
        self.ref_counts.extend([0] * min(self.chunk_blocks, self.max_blocks - self.num_blocks))

    def _is_empty(self, block: int) -> bool:
        """Free, and not kept for its contents."""
        return self.ref_counts[block] == 0 and block not in self.prefixes

    def _place_to_start(self) -> int:
        """Where a new run of blocks begins: in the widest gap. At its start if nobody stands to the left who would
        like to grow into it, else in its middle."""
        gap_start, gap_length, start = 0, 0, 0
        for block in range(self.num_blocks + 1):
            if block == self.num_blocks or not self._is_empty(block):
                if block - start > gap_length:
                    gap_start, gap_length = start, block - start
                start = block + 1
        return gap_start if gap_start == 0 else gap_start + gap_length // 2
