"""What the KV cache page reads: every vector, weight, block and byte is that of the engine's own tensors and tables."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from miniinfer.config import SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.errors import BadInputError
from miniinfer.trace.kv.pool import NextWrite, pool_view
from miniinfer.trace.kv.prediction import (
    branch_cost,
    is_close,
    next_block_step,
    slip,
    tensor_bytes,
    written_by_phase,
    written_bytes,
)
from miniinfer.trace.kv.vectors import cached_vectors, query_heads, reading_of
from miniinfer.trace.run import ChangeParams, ForceToken
from tests.engine.tiny import TINY, tiny_model
from tests.trace.live import PROMPT, finished_run, live_run

POSITION_BYTES = 2 * 3 * 2 * 8 * 4  # K and V, layers, KV heads, head dim, float32


def stepped(steps: int):
    run = live_run()
    for _ in range(steps):
        run.step()
    return run


def slot(engine: Engine, layer: int, which: int, kv_head: int, block: int, place: int) -> np.ndarray:
    return engine.kv_cache.data[layer, which, kv_head, block, place].numpy()


def test_vectors_are_the_storages_own_numbers() -> None:
    run = stepped(6)
    for layer in range(3):
        for kv_head in range(2):
            cached = cached_vectors(run, layer, kv_head, run.seq.num_computed_tokens)
            assert cached.keys.shape == cached.values.shape == (12, 8)
            for position, (block, place) in enumerate(cached.block_of):
                assert block == run.seq.block_table[position // 4]
                assert place == position % 4
                assert np.array_equal(cached.keys[position], slot(run.engine, layer, 0, kv_head, block, place))
                assert np.array_equal(cached.values[position], slot(run.engine, layer, 1, kv_head, block, place))


def test_an_earlier_step_held_a_part_of_the_same_numbers() -> None:
    run = stepped(4)
    before = cached_vectors(run, 1, 1, run.seq.num_computed_tokens)
    run.step()
    run.step()
    after = cached_vectors(run, 1, 1, run.seq.num_computed_tokens)
    assert np.array_equal(after.keys[: before.context_len], before.keys)
    assert np.array_equal(cached_vectors(run, 1, 1, before.context_len).values, before.values)


def test_what_the_model_does_not_have_is_refused() -> None:
    run = stepped(1)
    for layer, kv_head in ((3, 0), (-1, 0), (0, 2)):
        with pytest.raises(BadInputError, match="layers 0 to 2 and KV heads 0 to 1"):
            cached_vectors(run, layer, kv_head, 5)


def test_query_heads_of_a_kv_head() -> None:
    """KV-07: neighbours share a KV head."""
    assert [query_heads(9, 3, k) for k in range(3)] == [(0, 1, 2), (3, 4, 5), (6, 7, 8)]
    assert query_heads(4, 4, 2) == (2,)


def test_a_reading_is_what_attention_did_in_its_step() -> None:
    """Scores and weights against those that stood in the step's own state; single-row steps come back bit for bit."""
    run = live_run()
    seen: dict[tuple[str, int], torch.Tensor] = {}

    class Watch:
        def __call__(self, stage, state) -> None:
            if stage.name == "attn_scores":
                seen["scores", stage.layer] = state.attn_scores[0][:, 0, :, -1]  # [K, G, C]
                seen["q", stage.layer] = state.q[-1]  # [H, D]
            elif stage.name == "attn_pattern":
                seen["pattern", stage.layer] = state.attn_pattern[0][:, 0, :, -1]

    recorder, watch = run._recorder, Watch()
    run.step()
    own = type(recorder).__call__
    run._recorder = type("Both", (type(recorder),), {"__call__": lambda self, a, b: (own(self, a, b), watch(a, b))})(
        run.engine
    )
    run.step()
    for layer in range(3):
        for kv_head in range(2):
            reading = reading_of(run, cached_vectors(run, layer, kv_head, run.seq.num_computed_tokens))
            assert reading.position == len(PROMPT)
            assert reading.heads == tuple(range(5 * kv_head, 5 * kv_head + 5))
            assert np.array_equal(reading.q, seen["q", layer][list(reading.heads)].numpy())
            np.testing.assert_allclose(reading.scores, seen["scores", layer][kv_head].numpy(), atol=1e-5)
            assert np.array_equal(reading.weights, seen["pattern", layer][kv_head].numpy())
            np.testing.assert_allclose(reading.weights.sum(1), 1, atol=1e-6)


def test_a_query_is_in_no_slot_of_the_cache() -> None:
    run = stepped(3)
    q = run.queries_at(run.seq.num_computed_tokens - 1)
    slots = run.engine.kv_cache.data.flatten(0, 4).numpy()  # [all slots, D]
    for vector in q.reshape(-1, q.shape[-1]):
        assert not (slots == vector).all(1).any()


def test_a_dropped_query_is_a_sentence() -> None:
    run = stepped(2)
    part = run.records[1].sequences[0]
    object.__setattr__(part, "q", None)
    with pytest.raises(BadInputError, match="were dropped to stay within this session's trace budget"):
        reading_of(run, cached_vectors(run, 0, 0, run.seq.num_computed_tokens))


def check_pool(run, runs) -> None:
    """The view against the engine's tables and tensors."""
    engine, pool = run.engine, pool_view(run, runs)
    assert pool.reserved_bytes == engine.kv_cache.data.untyped_storage().nbytes()
    assert pool.reserved_bytes == len(pool.blocks) * pool.block_bytes
    assert pool.allocated_bytes == (len(pool.blocks) - len(pool.free)) * pool.block_bytes
    assert pool.used_bytes == sum(block.filled for block in pool.blocks) * pool.position_bytes
    assert (pool.used_bytes, pool.allocated_bytes) == (engine.used_bytes(), engine.allocated_bytes())
    assert pool.position_bytes == POSITION_BYTES
    assert pool.shape == tuple(engine.kv_cache.data.shape)
    for block in pool.blocks:
        assert block.ref_count == len(block.owners) == engine.pool.ref_counts[block.number]
        assert block.owners == tuple(s.seq_id for s in engine.sequences.values() if block.number in s.block_table)
        rows = engine.kv_cache.data[:, :, :, block.number]
        if block.ref_count and block.filled < 4 and len(block.owners) == 1:
            assert not rows[:, :, :, block.filled :].any(), "an empty slot holds zeros"
        assert (rows[:, :, :, : block.filled] != 0).any(-1).all() or not block.filled
    assert [e.block for e in pool.table] == run.seq.block_table
    assert sum(e.stop - e.start for e in pool.table) == run.seq.num_computed_tokens == pool.num_positions
    assert pool.waste_slots == len(run.seq.block_table) * 4 - pool.num_positions
    assert pool.run_used_bytes == pool.num_positions * POSITION_BYTES
    assert pool.run_allocated_bytes == len(pool.table) * 4 * POSITION_BYTES


def test_the_pool_at_every_step_of_a_run_with_branches() -> None:
    run = live_run()
    runs = [run]
    check_pool(run, runs)

    def storage() -> int:
        return run.engine.kv_cache.data.untyped_storage().nbytes()

    while run.step():
        assert run.steps[-1].kv_reserved_bytes == storage()
        if len(run.steps) in (3, 6):
            other = 7 if run.steps[-1].token_id != 7 else 8
            runs.append(run.fork(ForceToken(len(run.steps), other), f"r{len(runs) + 1}", "b"))
        for each in runs[1:]:
            if each.step():
                assert each.steps[-1].kv_reserved_bytes == storage()
                assert each.steps[-1].kv_used_bytes == each.seq.num_computed_tokens * POSITION_BYTES
        for each in runs:
            check_pool(each, runs)
    pool = pool_view(run, runs)
    assert pool.shared_blocks > 0
    assert pool.saved_bytes == sum(e.allocated_bytes(r.seq) for r in runs for e in [r.engine]) - pool.allocated_bytes
    assert {copy.run_id for copy in pool.copies} <= {"r1", "r2", "r3"}
    for copy in pool.copies:
        writer = next(r for r in runs if r.info.run_id == copy.run_id)
        assert copy.step is not None
        record = writer.records[copy.step - 1].sequences[0]
        assert record.start <= copy.position < record.context_len, "the step that wrote is the step that copied"
        assert copy.bytes == copy.num_positions * POSITION_BYTES
    assert pool.copies


def test_the_next_write_is_foretold() -> None:
    run = live_run()
    assert pool_view(run).next_write == NextWrite(0, 0, None, 0, False)
    copied = 0
    while run.seq.finish_reason is None:
        if len(run.steps) in (2, 4):
            run.fork(ChangeParams(len(run.steps), run.info.params), f"b{len(run.steps)}", "b")
        told, copies = pool_view(run).next_write, len(run.engine.block_copies)
        assert told is not None
        table = list(run.seq.block_table)
        run.step()
        assert told.position == run.steps[-1].context_len - run.steps[-1].num_scheduled
        assert (told.block is None) == (told.index >= len(table))
        assert told.copied == (len(run.engine.block_copies) > copies)
        copied += told.copied
        if told.block is not None and not told.copied:
            assert run.seq.block_table[told.index] == told.block
    assert copied == 1, "a branch at step 2 comes where a block ends, one at step 4 shares a block that is half full"
    assert pool_view(run).next_write is None


def test_bytes_of_tokens_are_counted_from_tensors() -> None:
    run = stepped(4)
    held = tensor_bytes(run)
    assert (held.positions, held.bytes) == (10, 10 * POSITION_BYTES)
    assert held.of(100) == 100 * POSITION_BYTES
    with pytest.raises(BadInputError, match="step once first"):
        tensor_bytes(live_run())


def test_what_each_phase_wrote() -> None:
    run = finished_run()
    found = written_by_phase(run.steps)
    assert (found.prefill_steps, found.decode_steps) == (1, 11)
    assert (found.prefill_bytes, found.decode_bytes) == (7 * POSITION_BYTES, 11 * POSITION_BYTES)
    assert found.longer == "decode"
    assert written_by_phase(run.steps[:1]).longer == "prefill"
    assert written_by_phase(run.steps[:8]).longer == "equal"
    assert found.prefill_bytes + found.decode_bytes == run.engine.used_bytes(run.seq)
    chunked = live_run(chunk=3)
    while chunked.step():
        pass
    assert [written_bytes(m) // POSITION_BYTES for m in chunked.steps[:4]] == [3, 3, 1, 1]


def test_when_the_next_block_comes() -> None:
    run = finished_run()
    blocks = [m.kv_allocated_bytes // (4 * POSITION_BYTES) for m in run.steps]
    assert blocks == [2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5]
    assert [next_block_step(run.steps, after) for after in (1, 2, 3, 6, 7, 11)] == [3, 3, 7, 7, 11, None]


def test_a_branch_that_is_tried_leaves_nothing_behind() -> None:
    run = stepped(4)  # 10 positions: the third block has two free slots
    before = (run.engine.pool.ref_counts.copy(), list(run.seq.block_table), run.engine.used_bytes())
    cost = branch_cost(run, 4)
    assert (cost.at_once, cost.first_step, cost.copied) == (0, 4 * POSITION_BYTES, True)
    assert (run.engine.pool.ref_counts, run.seq.block_table, run.engine.used_bytes()) == before
    assert list(run.engine.sequences) == ["r1"]
    assert run.engine.block_copies == []
    run.engine.check()
    run.step()
    run.step()  # 12 positions: the blocks are full
    assert branch_cost(run, 6).copied is False
    ids = run.seq.token_ids.copy()
    while run.step():
        pass
    assert run.seq.token_ids[: len(ids)] == ids
    assert run.seq.token_ids == finished_run().seq.token_ids
    with pytest.raises(BadInputError, match="over at once"):
        branch_cost(run, len(run.steps))
    with pytest.raises(BadInputError, match="chose a token"):
        branch_cost(run, 0)


@pytest.mark.parametrize(
    ("factor", "words"),
    [(5, "without GQA"), (0.5, "K or V alone"), (1 / 3, "one layer"), (0.01, "one token"), (1.8, None)],
)
def test_what_a_wrong_guess_forgot(factor: float, words: str | None) -> None:
    answer = 100 * POSITION_BYTES
    found = slip(round(answer * factor), answer, TINY, 4)
    assert found is None if words is None else words in str(found)
    assert is_close(round(answer * 1.04), answer)
    assert not is_close(round(answer * 1.06), answer)


def test_bfloat16_vectors_are_widened_without_loss() -> None:
    run = live_run(SamplingParams(temperature=0, max_new_tokens=3), model=tiny_model(dtype=torch.bfloat16))
    run.step()
    cached = cached_vectors(run, 2, 0, len(PROMPT))
    held = run.engine.kv_cache.data[2, 0, 0, run.seq.block_table].flatten(0, 1)[: len(PROMPT)]
    assert held.dtype == torch.bfloat16
    assert torch.equal(torch.from_numpy(cached.keys).to(torch.bfloat16), held)
    assert tensor_bytes(run).bytes == len(PROMPT) * POSITION_BYTES // 2
