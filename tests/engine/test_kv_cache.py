"""The pool's storage: its bytes, its zeros, and what a batch of unequal lengths may read."""

from __future__ import annotations

import math

import pytest
import torch

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.kv_cache import KEYS, VALUES, KVCache
from miniinfer.engine.lookup import kv_at
from miniinfer.errors import OutOfBlocksError
from tests.engine.helpers import GREEDY, PROMPT, PROMPTS, SMALL, run_all, solo, tiny_engine
from tests.engine.tiny import TINY

POSITION_BYTES = 2 * 3 * 2 * 8 * 4  # K and V, layers, K/V heads, head size, float32


def make(num_blocks: int = 5) -> KVCache:
    cache = KVCache(TINY, 4, torch.float32, torch.device("cpu"))
    cache.grow_to(num_blocks)
    return cache


def test_layout_and_bytes() -> None:
    cache = make()
    assert list(cache.data.shape) == [3, 2, 2, 5, 4, 8]
    assert not cache.data.any()
    assert cache.position_bytes == POSITION_BYTES
    assert cache.block_bytes == 4 * POSITION_BYTES
    assert cache.storage_bytes == cache.data.untyped_storage().nbytes() == 20 * POSITION_BYTES


def test_growing_keeps_what_is_there() -> None:
    cache = make(2)
    cache.data += torch.randn(cache.data.shape)
    before = cache.data.clone()
    cache.grow_to(7)
    assert torch.equal(cache.data[:, :, :, :2], before)
    assert not cache.data[:, :, :, 2:].any()


def test_write_and_gather() -> None:
    cache = make()
    k, v = torch.randn(6, 2, 8), torch.randn(6, 2, 8)
    table = [3, 1]
    slots = torch.tensor([table[p // 4] * 4 + p % 4 for p in range(6)])
    cache.data += 1
    cache.write(2, slots, torch.tensor([1]), k, v)
    blocks = torch.tensor(table)
    assert torch.equal(cache.gather(2, KEYS, blocks, 1, 6), k.transpose(0, 1))
    assert torch.equal(cache.gather(2, VALUES, blocks, 1, 6), v.transpose(0, 1))
    assert (cache.gather(2, KEYS, blocks, 1, 8)[:, 6:] == 0).all(), "a new block begins with zeros"
    assert (cache.data[:2] == 1).all(), "other layers are not touched"
    together = cache.gather(2, KEYS, torch.tensor([3, 1, 0, 3]), 2, 8)  # [K * S, C, D]
    assert torch.equal(together.view(2, 2, 8, 8)[:, 0, :6], k.transpose(0, 1))
    assert torch.equal(together.view(2, 2, 8, 8)[:, 1, 4:], k.transpose(0, 1)[:, :4])


def test_a_copy_holds_the_first_positions_and_zeros() -> None:
    cache = make()
    cache.data += torch.randn(cache.data.shape)
    cache.copy_block(1, 4, 3)
    assert torch.equal(cache.data[:, :, :, 4, :3], cache.data[:, :, :, 1, :3])
    assert not cache.data[:, :, :, 4, 3:].any()


def test_no_memory_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = tiny_engine(EngineConfig(block_size=4, pool_chunk_blocks=1))
    seq = engine.add_request(PROMPT, GREEDY)
    engine.step()
    zeros = torch.zeros

    def no_memory(*args, **kwargs):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(torch, "zeros", no_memory)
    engine.step()
    with pytest.raises(OutOfBlocksError, match=r"no memory for a KV cache of 3 blocks \(4,608 bytes\)"):
        engine.step()
    engine.check()
    monkeypatch.setattr(torch, "zeros", zeros)
    run_all(engine)
    assert seq.output_ids == solo(PROMPT)[0]


def test_three_numbers_at_every_step_of_a_run_with_branches() -> None:
    engine = tiny_engine(SMALL)
    trunk = engine.add_request(PROMPT, SamplingParams(temperature=0, max_new_tokens=20))
    steps = 0
    while (state := engine.step()) is not None:
        steps += 1
        if steps in (3, 6):
            engine.fork(trunk, 8, force=steps)
        assert engine.reserved_bytes() == engine.kv_cache.data.untyped_storage().nbytes()
        assert engine.reserved_bytes() % (3 * 4 * POSITION_BYTES) == 0, "it grows by chunks of 3 blocks"
        assert engine.used_bytes() <= engine.allocated_bytes() <= engine.reserved_bytes()
        for seq in engine.sequences.values():
            assert engine.used_bytes(seq) == seq.num_computed_tokens * POSITION_BYTES
            assert engine.allocated_bytes(seq) == len(seq.block_table) * 4 * POSITION_BYTES
            assert 0 <= engine.allocated_bytes(seq) - engine.used_bytes(seq) < 4 * POSITION_BYTES
        if len(engine.sequences) == 1:
            assert engine.used_bytes() == engine.used_bytes(trunk)
        assert state.token_ids
    shared = sum(count - 1 for count in engine.pool.ref_counts if count)
    assert shared > 0
    each = sum(engine.allocated_bytes(seq) for seq in engine.sequences.values())
    assert each - engine.allocated_bytes() == shared * 4 * POSITION_BYTES
    assert engine.kv_itemsize == 4


@torch.inference_mode()
def test_what_earlier_owners_left_in_a_block_reaches_nobody() -> None:
    """All free blocks are filled with NaN between steps; short sequences beside long ones read past their end."""
    engine = tiny_engine(SMALL)
    seqs = [engine.add_request(prompt, SamplingParams(temperature=0, max_new_tokens=12)) for prompt in PROMPTS]
    reused = 0
    while engine.step():
        free = [b for b in range(engine.kv_cache.num_blocks) if engine.pool.ref_counts[b] == 0]
        engine.kv_cache.data[:, :, :, free] = math.nan
        for seq in [seq for seq in seqs if seq.finished and seq.block_table]:
            engine.release(seq)
            if reused < 4:
                reused += 1
                seqs.append(engine.add_request(seq.token_ids[2:9], GREEDY))
    assert reused == 4
    for seq in seqs:
        assert seq.error is None
        assert seq.output_ids == solo(seq.prompt_ids, seq.params)[0]


def test_a_full_context_stops_the_run_and_positions_ids_and_slots_stay_equal_in_number() -> None:
    """KV-05, the simple policy: nothing is shifted. A context of 16, a prompt of 10, 60 new tokens wanted."""
    engine = tiny_engine(EngineConfig(block_size=4, context_length=16))
    seq = engine.add_request(range(10), SamplingParams(temperature=0, max_new_tokens=60))
    while (state := engine.step()) is not None:
        assert state.positions.tolist()[-1] == seq.num_computed_tokens - 1
        assert len(seq.block_table) == -(-seq.num_computed_tokens // 4)
    assert (seq.finish_reason, seq.num_computed_tokens) == ("context", 16)
    assert engine.used_bytes(seq) == 16 * POSITION_BYTES == engine.allocated_bytes(seq)


def test_a_gather_writes_over_the_one_before() -> None:
    """Keys over keys and values over values, and never one over the other; what a panel was given is a copy."""
    engine = tiny_engine()
    seq = engine.add_request(PROMPT, GREEDY)
    engine.step()
    blocks = torch.tensor(seq.block_table)
    first = engine.kv_cache.gather(0, KEYS, blocks, 1, 7)
    values = engine.kv_cache.gather(0, VALUES, blocks, 1, 7)
    again = engine.kv_cache.gather(1, KEYS, blocks, 1, 7)
    assert again.data_ptr() == first.data_ptr() != values.data_ptr()
    for kept, which in zip(kv_at(engine, seq, 0, 0, 7), (KEYS, VALUES), strict=True):
        engine.kv_cache.gather(2, which, blocks, 1, 7)
        assert torch.equal(kept, engine.kv_cache.gather(0, which, blocks, 1, 7))
