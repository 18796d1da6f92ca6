"""Where the tokens of a step lie in the KV cache, found at the moment of writing.

Between two stages of a parked step anybody may fork one of its sequences. From then on a block is shared, and writing
into it would change the other sequence's past. So `write_kv` asks before every write whether the pool has changed
since its places were found, and if it has, finds them again: first a private copy of every shared block that is about
to be written, then the slots to write to, then the tables that attention will read. All three, or a branch reads its
trunk's future (or the trunk its branch's).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from miniinfer.engine.block_pool import BlockCopy
from miniinfer.errors import OutOfBlocksError

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.scheduler import Scheduled
    from miniinfer.engine.state import StepState


def place_tokens(engine: Engine, state: StepState) -> None:
    """Renew slot_mapping, new_blocks and block_tables if the pool's version differs from the state's."""
    if state.pool_version == engine.pool.version:
        return
    for entry in state.scheduled:
        copy_shared_blocks(engine, entry)
    engine.kv_cache.grow_to(engine.pool.num_blocks)
    size = engine.config.block_size
    device = engine.device
    slots = [
        entry.seq.block_table[position // size] * size + position % size
        for entry in state.scheduled
        for position in range(entry.start, entry.stop)
    ]
    new_blocks = [
        block
        for entry in state.scheduled
        for block in entry.seq.block_table[-(-entry.start // size) : -(-entry.stop // size)]
    ]
    state.slot_mapping = torch.tensor(slots, device=device)
    state.new_blocks = torch.tensor(new_blocks, dtype=torch.int64, device=device)
    state.block_tables = tuple(
        joined_tables(
            engine,
            [
                entry.seq.block_table[: -(-entry.stop // size)]  # without blocks that are only reserved
                for entry in state.scheduled[group.first_seq :][: group.num_seqs]
            ],
        )
        for group in state.groups
    )
    state.pool_version = engine.pool.version


def copy_shared_blocks(engine: Engine, entry: Scheduled) -> None:
    """Copy-on-write: give the sequence its own copy of every shared block that this step writes into.

    Only its own positions are copied; another owner may have gone further. A block that is its own is no longer what
    the prefix cache may know it as. Raises OutOfBlocksError.
    """
    table, size = entry.seq.block_table, engine.config.block_size
    for i in range(entry.start // size, -(-entry.stop // size)):
        shared = table[i]
        if not engine.pool.is_shared(shared):
            engine.pool.prefixes.forget(shared)
        else:
            private = engine.pool.alloc(after=table[i - 1] if i else None)
            try:
                engine.kv_cache.grow_to(engine.pool.num_blocks)
            except OutOfBlocksError:
                engine.pool.release([private])
                raise
            num_positions = min(size, entry.stop - i * size)
            engine.kv_cache.copy_block(shared, private, num_positions)
            table[i] = private
            engine.pool.release([shared])
            engine.block_copies.append(BlockCopy(entry.seq.seq_id, entry.start, i, shared, private, num_positions))


def joined_tables(engine: Engine, tables: list[list[int]]) -> Tensor:
    """The block tables of a group as KVCache.gather reads them: [S * B], B being the length of the longest.

    A shorter table is filled up with its own first block: its numbers are finite whenever the sequence's own are, and
    attention gives them the weight 0.
    """
    longest = max(len(table) for table in tables)
    blocks = [block for table in tables for block in table + table[:1] * (longest - len(table))]
    return torch.tensor(blocks, device=engine.device)
