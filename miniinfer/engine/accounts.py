"""What the sequences of an engine hold, and whether its books balance. Plain Python."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Set as AbstractSet

from miniinfer.engine.prefix_cache import extend_hashes
from miniinfer.engine.scheduler import Scheduler
from miniinfer.engine.sequence import Sequence


def filled_positions(sequences: Collection[Sequence], block_size: int) -> dict[int, int]:
    """How many positions of each used block hold something computed; one that several sequences share counts once."""
    filled: dict[int, int] = {}
    for seq in sequences:
        for i, block in enumerate(seq.block_table):
            filled[block] = max(filled.get(block, 0), min(block_size, seq.num_computed_tokens - i * block_size))
    return filled


def used_positions(sequences: Collection[Sequence], block_size: int) -> int:
    """Positions of the cache that hold something computed."""
    return sum(filled_positions(sequences, block_size).values())


def check_books(sequences: Collection[Sequence], scheduler: Scheduler, parked: AbstractSet[Sequence]) -> None:
    """Raise AssertionError unless reference counts equal table entries, tables cover what is computed (`parked` ones
    and those with reserved blocks more), what the prefix cache knows of a sequence's full blocks is what they hold, and
    every unfinished sequence stands in exactly one queue."""
    scheduler.pool.check(seq.block_table for seq in sequences)
    queued = [*scheduler.running, *scheduler.waiting]
    assert len(queued) == len(set(queued)), "a sequence is queued twice"
    assert set(queued) == {seq for seq in sequences if not seq.finished}, "queues and unfinished sequences differ"
    for seq in sequences:
        assert seq.num_computed_tokens <= seq.num_tokens
        covering = -(-seq.num_computed_tokens // scheduler.config.block_size)
        assert len(seq.block_table) >= covering, f"{seq.seq_id}: a computed position has no block"
        exact = not scheduler.config.reserve_blocks and seq not in parked
        assert len(seq.block_table) == covering or not exact, f"{seq.seq_id}: a block without a position"
        check_hashes(seq, scheduler)


def check_hashes(seq: Sequence, scheduler: Scheduler) -> None:
    """Raise AssertionError unless every full computed block of the sequence has no hash, or that of its own tokens."""
    size = scheduler.config.block_size
    num_full = seq.num_computed_tokens // size
    hashes: list[bytes] = []
    extend_hashes(hashes, seq.token_ids, size, num_full)
    for block, expected in zip(seq.block_table[:num_full], hashes, strict=True):
        known = scheduler.pool.prefixes.hash_of(block)
        assert known in (None, expected), f"{seq.seq_id}: block {block} is cached under another text's hash"
    assert seq.block_hashes[:num_full] == hashes[: len(seq.block_hashes)], f"{seq.seq_id}: a wrong hash chain"
