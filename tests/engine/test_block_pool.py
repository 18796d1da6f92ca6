"""The block pool as plain Python: who owns what, where blocks are placed, and when it says no."""

from __future__ import annotations

import pytest

from miniinfer.engine.block_pool import BlockPool
from miniinfer.errors import OutOfBlocksError


def test_it_grows_by_chunks_up_to_its_limit() -> None:
    pool = BlockPool(chunk_blocks=3, max_blocks=7)
    sizes = []
    for _ in range(7):
        pool.alloc()
        sizes.append(pool.num_blocks)
    assert sizes == [3, 3, 3, 6, 6, 6, 7]
    assert (pool.num_used, pool.num_free, pool.num_available) == (7, 0, 0)
    with pytest.raises(OutOfBlocksError, match=r"All 7 blocks.*release or abort a run"):
        pool.alloc()
    pool.release([4])
    assert pool.alloc() == 4
    assert pool.num_blocks == 7


def test_a_growing_sequence_gets_the_neighbour() -> None:
    pool = BlockPool(chunk_blocks=16, max_blocks=16)
    first = pool.alloc()
    assert first == 0, "an empty pool is filled from its start"
    second = pool.alloc()
    assert second == 1 + 15 // 2, "a second one starts in the middle of the gap, and both can grow"
    table = [first]
    for _ in range(6):
        table.append(pool.alloc(after=table[-1]))
    assert table == list(range(7))
    assert pool.alloc(after=pool.alloc(after=7 - 1)) != second, "a neighbour in use is not given away"


def test_shared_blocks_are_freed_by_their_last_owner() -> None:
    pool = BlockPool(chunk_blocks=4, max_blocks=4)
    a, b = pool.alloc(), pool.alloc()
    version = pool.version
    pool.share([a, b])
    assert pool.version > version
    assert pool.is_shared(a)
    pool.check([[a, b], [a, b]])
    pool.release([a, b])
    assert not pool.is_shared(a)
    assert pool.num_used == 2
    pool.release([a, b])
    assert pool.num_used == 0
    pool.check([])


def test_misuse_is_caught() -> None:
    pool = BlockPool(chunk_blocks=4, max_blocks=4)
    block = pool.alloc()
    with pytest.raises(AssertionError, match="ref_count 1 but 0"):
        pool.check([])
    with pytest.raises(AssertionError, match="twice"):
        pool.check([[block, block]])
    pool.release([block])
    with pytest.raises(AssertionError, match="free already"):
        pool.release([block])
    with pytest.raises(AssertionError, match="cannot be shared"):
        pool.share([block])
