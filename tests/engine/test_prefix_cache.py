"""Hash chains, and which free block goes first."""

from __future__ import annotations

import pytest

from miniinfer.engine.block_pool import BlockPool
from miniinfer.engine.prefix_cache import START, block_hash, extend_hashes


def chain(*tokens: int) -> list[bytes]:
    hashes: list[bytes] = []
    extend_hashes(hashes, tokens, 2, len(tokens) // 2)
    return hashes


def test_a_hash_stands_for_everything_up_to_its_block() -> None:
    assert chain(1, 2, 3, 4)[0] == block_hash(START, [1, 2])
    assert chain(1, 2, 3, 4)[1] == block_hash(chain(1, 2)[0], [3, 4])
    assert chain(1, 2, 3, 4)[1] != chain(9, 2, 3, 4)[1], "the same block after another beginning"
    assert chain(1, 23) != chain(12, 3)
    assert chain(0, 0, 0, 0)[0] != chain(0, 0, 0, 0)[1]
    with pytest.raises(AssertionError, match="full block"):
        extend_hashes([], [1], 2, 1)


def pool_with(*hashes: bytes) -> tuple[BlockPool, list[int]]:
    pool = BlockPool(chunk_blocks=4, max_blocks=4)
    blocks: list[int] = []
    for one in hashes:
        blocks.append(pool.alloc(after=blocks[-1] if blocks else None))
        pool.prefixes.register(blocks[-1], one)
    return pool, blocks


def test_free_blocks_are_found_again_until_they_are_needed() -> None:
    hashes = chain(1, 2, 3, 4, 5, 6)
    pool, blocks = pool_with(*hashes)
    pool.release(blocks)
    assert pool.num_used == 0
    assert pool.prefixes.find(hashes) == blocks
    assert pool.prefixes.find(chain(1, 2, 7, 8, 5, 6)) == blocks[:1]
    assert pool.alloc() == 3, "the empty block goes before those that hold something"
    assert pool.alloc() == blocks[2], "then the end of the beginning that was freed longest ago"
    assert pool.prefixes.find(hashes) == blocks[:2]
    version = pool.version
    pool.take_cached(blocks[:2])
    assert pool.version > version
    assert (pool.num_used, pool.num_available, list(pool.prefixes.free)) == (4, 0, [])
    pool.check([blocks[:2], [3], [blocks[2]]])


def test_the_first_block_that_holds_something_is_the_one_that_is_found() -> None:
    pool, [first] = pool_with(chain(1, 2)[0])
    second = pool.alloc()
    pool.prefixes.register(second, chain(1, 2)[0])
    assert pool.prefixes.find(chain(1, 2)) == [first]
    assert second not in pool.prefixes
    pool.prefixes.forget(first)
    assert pool.prefixes.find(chain(1, 2)) == []


def test_a_hash_without_its_block_is_caught() -> None:
    pool, blocks = pool_with(chain(1, 2)[0])
    pool.prefixes.free[blocks[0]] = None
    with pytest.raises(AssertionError, match="not listed"):
        pool.check([blocks])
