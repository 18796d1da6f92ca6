"""The block pool of a run's engine as plain records: who owns which block, how full it is, what was copied when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.run import Run


@dataclass(frozen=True)
class Block:
    """A physical block. owners: ids of the sequences whose tables name it, in the order of their making; none if free.

    filled: slots that hold a computed position of any owner.
    """

    number: int
    ref_count: int
    filled: int
    owners: tuple[str, ...]


@dataclass(frozen=True)
class TableEntry:
    """One line of a sequence's block table: positions start .. stop - 1 of it lie in physical block `block`."""

    index: int
    block: int
    start: int
    stop: int
    ref_count: int
    shared_with: tuple[str, ...]


@dataclass(frozen=True)
class CopyOnWrite:
    """A block that was copied before it was written, because it had other owners. step: the run's own step that wrote,
    None if the sequence is no run of this session. bytes: of the copied positions."""

    run_id: str
    step: int | None
    position: int
    index: int
    source: int
    target: int
    num_positions: int
    bytes: int


@dataclass(frozen=True)
class NextWrite:
    """Where the newest token's key and value would go: block None where one has to be taken from the free list first.
    copied: the block has other owners, so it would be copied first."""

    position: int
    index: int
    block: int | None
    slot: int
    copied: bool


@dataclass(frozen=True)
class PoolView:
    """The pool between two steps. used, allocated and reserved are the engine's own three numbers over all sequences;
    run_used and run_allocated are this run's, in which shared blocks count whole. shape: of the storage's tensor
    [L, 2, K, N, P, D]; storage_bytes are read from its storage."""

    run_id: str
    block_size: int
    block_bytes: int
    position_bytes: int
    max_blocks: int
    blocks: tuple[Block, ...]
    table: tuple[TableEntry, ...]
    copies: tuple[CopyOnWrite, ...]
    next_write: NextWrite | None
    used_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    run_used_bytes: int
    run_allocated_bytes: int
    num_positions: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def free(self) -> tuple[int, ...]:
        """Numbers of the free blocks, ascending."""
        return tuple(block.number for block in self.blocks if block.ref_count == 0)

    @property
    def waste_slots(self) -> int:
        """Slots of this run's last block that hold no position of it yet."""
        return len(self.table) * self.block_size - self.num_positions

    @property
    def shared_blocks(self) -> int:
        return sum(block.ref_count > 1 for block in self.blocks)

    @property
    def saved_bytes(self) -> int:
        """What sharing saves: bytes that all tables together would need without it, less those that are there."""
        return sum(block.ref_count - 1 for block in self.blocks if block.ref_count) * self.block_bytes


def pool_view(run: LiveRun, runs: Iterable[Run] = ()) -> PoolView:
    """The pool in which `run` lies, as it is now. `runs` of the session tell which step made a copy."""
    from miniinfer.engine.accounts import filled_positions

    engine, seq = run.engine, run.seq
    size, cache = engine.config.block_size, engine.kv_cache
    filled = filled_positions(engine.sequences.values(), size)
    owners: dict[int, list[str]] = {}
    for other in engine.sequences.values():
        for number in other.block_table:
            owners.setdefault(number, []).append(other.seq_id)
    blocks = tuple(
        Block(number, count, filled.get(number, 0), tuple(owners.get(number, ())))
        for number, count in enumerate(engine.pool.ref_counts)
    )
    by_id = {r.info.run_id: r for r in runs if isinstance(r, LiveRun) and r.engine is engine}
    return PoolView(
        run.info.run_id, size, cache.block_bytes, cache.position_bytes, engine.pool.max_blocks, blocks,
        _table(run, blocks), tuple(_copies(run, by_id)), _next_write(run),
        engine.used_bytes(), engine.allocated_bytes(), engine.reserved_bytes(),
        engine.used_bytes(seq), engine.allocated_bytes(seq), seq.num_computed_tokens,
        tuple(cache.data.shape), str(cache.data.dtype).removeprefix("torch."),
    )


def _table(run: LiveRun, blocks: tuple[Block, ...]) -> tuple[TableEntry, ...]:
    size, computed = run.engine.config.block_size, run.seq.num_computed_tokens
    return tuple(
        TableEntry(
            i, number, i * size, max(i * size, min((i + 1) * size, computed)), blocks[number].ref_count,
            tuple(owner for owner in blocks[number].owners if owner != run.seq.seq_id),
        )
        for i, number in enumerate(run.seq.block_table)
    )


def _copies(run: LiveRun, by_id: dict[str, LiveRun]) -> Iterable[CopyOnWrite]:
    for made in run.engine.block_copies:
        writer = by_id.get(made.seq_id)
        yield CopyOnWrite(
            made.seq_id, writer.step_of(made.position) if writer else None, made.position, made.index, made.source,
            made.target, made.num_positions, made.num_positions * run.engine.kv_cache.position_bytes,
        )


def _next_write(run: LiveRun) -> NextWrite | None:
    """None for a run that is finished: nothing more will be written."""
    seq, size = run.seq, run.engine.config.block_size
    if seq.finished:
        return None
    position = seq.num_computed_tokens
    index, slot = divmod(position, size)
    block = seq.block_table[index] if index < len(seq.block_table) else None
    return NextWrite(position, index, block, slot, block is not None and run.engine.pool.is_shared(block))
