"""Copy-on-writes are recorded, reserved is the storage at every step, and no block size changes a value."""

from __future__ import annotations

import pytest
import torch

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.block_pool import BlockCopy
from miniinfer.engine.engine import Engine
from tests.engine.helpers import PROMPT, SMALL, cached, shared_tiny, tiny_engine

LONG = SamplingParams(temperature=0, max_new_tokens=14)


def test_a_copy_is_recorded_when_a_shared_block_is_written_and_only_then() -> None:
    engine = tiny_engine(SMALL)
    trunk = engine.add_request(PROMPT, LONG)
    for _ in range(3):
        engine.step()
    assert engine.block_copies == []
    branch = engine.fork(trunk, 9, force=40)  # its third block of 4 holds one position, and is shared
    shared = branch.block_table[2]
    assert engine.block_copies == [], "a fork copies nothing"
    engine.step(only=branch)
    assert engine.block_copies == [BlockCopy(branch.seq_id, 9, 2, shared, branch.block_table[2], 2)]
    engine.step(only=trunk)
    assert len(engine.block_copies) == 1, "the trunk is alone in its block again"
    engine.step(only=branch)
    assert len(engine.block_copies) == 1


def test_the_trunk_copies_if_it_writes_first() -> None:
    engine = tiny_engine(SMALL)
    trunk = engine.add_request(PROMPT, LONG)
    for _ in range(3):
        engine.step()
    branch = engine.fork(trunk, trunk.num_tokens)
    engine.step(only=trunk)
    [copy] = engine.block_copies
    assert (copy.seq_id, copy.source, copy.target) == (trunk.seq_id, branch.block_table[-1], trunk.block_table[-1])
    assert torch.equal(cached(engine, trunk)[:, :, :, : branch.num_computed_tokens], cached(engine, branch))


def test_a_branch_at_the_end_of_a_full_block_copies_nothing() -> None:
    engine = tiny_engine(SMALL)
    trunk = engine.add_request([*PROMPT, 9], LONG)  # 8 positions: two full blocks of 4
    engine.step()
    branch = engine.fork(trunk, 8, force=5)
    engine.step(only=branch)
    assert engine.block_copies == []
    assert [engine.pool.ref_counts[block] for block in branch.block_table] == [2, 2, 1]


def test_copies_of_a_released_sequence_are_forgotten() -> None:
    engine = tiny_engine(SMALL)
    trunk = engine.add_request(PROMPT, LONG)
    engine.step()
    branch = engine.fork(trunk, 7, force=3)
    engine.step(only=branch)
    assert [copy.seq_id for copy in engine.block_copies] == [branch.seq_id]
    engine.release(branch)
    assert engine.block_copies == []


def test_reserved_is_the_storage_and_used_is_what_the_tables_reach_at_every_step_of_a_run_with_branches() -> None:
    """KV-13: the numbers are those of the real tensors. Used is counted anew here, slot by slot."""
    engine = tiny_engine(SMALL)
    trunk = engine.add_request(PROMPT, LONG)
    steps = 0
    while engine.step() is not None:
        steps += 1
        if steps in (2, 5, 6):
            engine.fork(trunk, 6 + steps, force=steps)
        storage = engine.kv_cache.data.untyped_storage()
        assert engine.reserved_bytes() == storage.nbytes() == engine.kv_cache.data.numel() * 4
        assert engine.reserved_bytes() == engine.pool.num_blocks * engine.kv_cache.block_bytes
        seqs = list(engine.sequences.values())
        slots = {(seq.block_table[p // 4], p % 4) for seq in seqs for p in range(seq.num_computed_tokens)}
        position = engine.kv_cache.data[:, :, :, 0, 0]  # all numbers of one slot: [L, 2, K, D]
        assert engine.used_bytes() == len(slots) * position.numel() * position.itemsize
        held = {block for seq in seqs for block in seq.block_table}
        block = engine.kv_cache.data[:, :, :, 0]  # [L, 2, K, P, D]
        assert engine.allocated_bytes() == len(held) * block.numel() * block.itemsize
    assert len(engine.sequences) == 4
    assert engine.block_copies, "some block was copied on the way"


@pytest.mark.parametrize("size", [1, 3, 5, 8, 16, 64, 256])
def test_every_block_size_holds_the_same_values_and_gives_the_same_tokens(size: int) -> None:
    def run(config: EngineConfig) -> tuple[list[int], list[int], torch.Tensor, torch.Tensor]:
        engine = Engine(shared_tiny(), config)
        trunk = engine.add_request(PROMPT, SamplingParams(temperature=1.1, seed=4, max_new_tokens=9))
        for _ in range(5):
            engine.step()
        branch = engine.fork(trunk, 9, force=11)
        while engine.step() is not None:
            engine.check()
            assert engine.reserved_bytes() == engine.kv_cache.data.untyped_storage().nbytes()
        return trunk.token_ids, branch.token_ids, cached(engine, trunk), cached(engine, branch)

    trunk, branch, trunk_kv, branch_kv = run(EngineConfig(block_size=size, pool_chunk_blocks=2))
    expected_trunk, expected_branch, expected_trunk_kv, expected_branch_kv = run(EngineConfig(block_size=4))
    assert (trunk, branch) == (expected_trunk, expected_branch)
    assert torch.equal(trunk_kv, expected_trunk_kv)
    assert torch.equal(branch_kv, expected_branch_kv)
