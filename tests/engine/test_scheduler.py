"""The scheduler as plain Python: budget, order, admission and blocks."""

from __future__ import annotations

import pytest

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.block_pool import BlockPool
from miniinfer.engine.scheduler import Scheduler
from miniinfer.engine.sequence import Sequence, SequenceStatus
from miniinfer.errors import BadInputError, OutOfBlocksError


def make(max_blocks: int = 100, **config: int) -> Scheduler:
    return Scheduler(EngineConfig(block_size=4, **config), BlockPool(chunk_blocks=2, max_blocks=max_blocks))


def add(scheduler: Scheduler, name: str, num_tokens: int, prefill_chunk: int | None = None) -> Sequence:
    seq = Sequence(name, [1] * num_tokens, num_tokens, SamplingParams(), prefill_chunk=prefill_chunk)
    scheduler.add(seq)
    return seq


def commit(scheduler: Scheduler, **schedule_args) -> dict[str, tuple[int, int]]:
    """Schedule and do what a step's commit does; {name: (num_tokens, start)}."""
    schedule = scheduler.schedule(**schedule_args)
    for entry in schedule.scheduled:
        entry.seq.num_computed_tokens = entry.stop
        if entry.stop == entry.seq.num_tokens:
            entry.seq.token_ids.append(2)
    return {seq.seq_id: (n, start) for seq, n, start in schedule.scheduled}


def test_decodes_go_first_and_chunks_take_the_rest() -> None:
    scheduler = make(max_num_batched_tokens=8)
    add(scheduler, "a", 3)
    add(scheduler, "b", 20)
    add(scheduler, "c", 2)
    assert commit(scheduler) == {"a": (3, 0), "b": (5, 0)}
    assert commit(scheduler) == {"a": (1, 3), "b": (7, 5)}
    assert commit(scheduler) == {"a": (1, 4), "b": (7, 12)}
    assert commit(scheduler) == {"a": (1, 5), "b": (1, 19), "c": (2, 0)}
    assert commit(scheduler) == {"a": (1, 6), "b": (1, 20), "c": (1, 2)}


def test_decodes_stand_before_chunks_whatever_came_first() -> None:
    scheduler = make(max_num_batched_tokens=8)
    add(scheduler, "long", 30, prefill_chunk=2)
    add(scheduler, "short", 1)
    commit(scheduler)
    assert list(commit(scheduler)) == ["short", "long"]


def test_a_sequence_can_cap_its_own_chunks() -> None:
    scheduler = make()
    add(scheduler, "a", 5, prefill_chunk=2)
    assert [commit(scheduler)["a"] for _ in range(4)] == [(2, 0), (2, 2), (1, 4), (1, 5)]


def test_first_come_first_served() -> None:
    scheduler = make(max_num_seqs=2)
    seqs = [add(scheduler, name, 2) for name in "abc"]
    assert list(commit(scheduler)) == ["a", "b"]
    assert [seq.status for seq in seqs] == [SequenceStatus.RUNNING, SequenceStatus.RUNNING, SequenceStatus.WAITING]
    scheduler.remove(seqs[0])
    assert list(commit(scheduler)) == ["b", "c"]


def test_only_one_sequence() -> None:
    """Stepping one alone neither moves the others nor counts them against max_num_seqs."""
    scheduler = make(max_num_seqs=1)
    add(scheduler, "a", 2)
    b = add(scheduler, "b", 2)
    assert list(commit(scheduler)) == ["a"]
    assert list(commit(scheduler, only=b)) == ["b"]
    assert list(commit(scheduler, only=b)) == ["b"]
    assert list(commit(scheduler)) == ["a", "b"]


def test_a_waiting_sequence_waits_for_blocks() -> None:
    scheduler = make(max_blocks=4, max_num_batched_tokens=4)
    a = add(scheduler, "a", 8)
    add(scheduler, "b", 9)  # 3 blocks, but a will need 2
    assert list(commit(scheduler)) == ["a"]
    assert list(commit(scheduler)) == ["a"]
    assert list(commit(scheduler)) == ["a"], "a now decodes into its third block"
    scheduler.pool.release(a.block_table)
    scheduler.remove(a)
    assert list(commit(scheduler)) == ["b"]


def test_two_prompts_never_wait_for_each_other() -> None:
    scheduler = make(max_blocks=6)
    add(scheduler, "a", 12, prefill_chunk=4)
    add(scheduler, "b", 16)  # 4 blocks, of which 5 are free at first, but a will need 2 of them
    add(scheduler, "c", 4)  # would fit, but b came first
    for _ in range(3):
        assert list(commit(scheduler)) == ["a"]


def test_a_running_sequence_without_a_block_stalls_while_others_go_on() -> None:
    scheduler = make(max_blocks=2)
    a, b = add(scheduler, "a", 3), add(scheduler, "b", 1)
    commit(scheduler)
    assert commit(scheduler) == {"a": (1, 3), "b": (1, 1)}
    assert commit(scheduler) == {"b": (1, 2)}, "a needs a second block"
    assert commit(scheduler) == {"b": (1, 3)}
    before = list(a.block_table), list(b.block_table)
    with pytest.raises(OutOfBlocksError, match=r"'a' needs another block.*2 of 2 are in use: release or abort"):
        scheduler.schedule()
    assert before == (a.block_table, b.block_table)


def test_a_lone_sequence_without_a_block_gets_an_error() -> None:
    scheduler = make(max_blocks=1)
    add(scheduler, "a", 4)
    commit(scheduler)
    with pytest.raises(OutOfBlocksError, match="'a' needs another block"):
        scheduler.schedule()


def test_the_copy_of_a_shared_block_is_counted() -> None:
    scheduler = make(max_blocks=3)
    a, b = add(scheduler, "a", 6), Sequence("b", [1] * 6, 6, SamplingParams(), num_computed_tokens=5)
    commit(scheduler)
    b.block_table = list(a.block_table)
    scheduler.pool.share(b.block_table)
    scheduler.add(b)
    assert scheduler.blocks_needed(a, 1) == 1
    assert scheduler.blocks_needed(a, 3) == 2
    assert scheduler.blocks_needed(b, 1) == 1
    assert list(commit(scheduler)) == ["a"], "one block is left, and a needs it for its copy"


def test_undo_puts_everything_back() -> None:
    scheduler = make()
    add(scheduler, "a", 3)
    commit(scheduler)
    b, c = add(scheduler, "b", 9), add(scheduler, "c", 1)
    schedule = scheduler.schedule()
    assert (b.status, len(b.block_table)) == (SequenceStatus.RUNNING, 3)
    scheduler.undo(tuple(schedule.scheduled), tuple(schedule.admitted))
    assert list(scheduler.waiting) == [b, c]
    assert (b.status, b.block_table, scheduler.pool.num_used) == (SequenceStatus.WAITING, [], 1)


def test_parked_sequences_are_left_out() -> None:
    scheduler = make()
    a, b = add(scheduler, "a", 3), add(scheduler, "b", 3)
    commit(scheduler)
    assert list(commit(scheduler, parked={a})) == ["b"]
    with pytest.raises(BadInputError, match="Nobody else can run while a step is parked"):
        scheduler.schedule(parked={a, b})


def test_an_empty_step_is_an_error() -> None:
    with pytest.raises(BadInputError, match="no unfinished sequence"):
        make().schedule()
