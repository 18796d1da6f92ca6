"""The scheduler as plain Python: budget, order, admission and blocks."""

from __future__ import annotations

import pytest

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.block_pool import BlockPool
from miniinfer.engine.scheduler import Scheduler
from miniinfer.engine.sequence import Sequence, SequenceStatus
from miniinfer.engine.static_scheduler import StaticScheduler
from miniinfer.errors import BadInputError, OutOfBlocksError


def make(max_blocks: int = 100, **config: object) -> Scheduler:
    return Scheduler(EngineConfig(**{"block_size": 4, **config}), BlockPool(chunk_blocks=2, max_blocks=max_blocks))


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


def test_who_arrived_last_is_preempted_and_computes_everything_again() -> None:
    scheduler = make(max_blocks=4)
    a, b, c = add(scheduler, "a", 3), add(scheduler, "b", 2), add(scheduler, "c", 7)
    commit(scheduler)
    assert commit(scheduler) == {"a": (1, 3), "b": (1, 2), "c": (1, 7)}
    schedule = scheduler.schedule()
    assert {seq.seq_id: n for seq, n, _ in schedule.scheduled} == {"a": 1, "b": 1}, "a takes a block that c had"
    assert schedule.preempted == [c]
    assert (c.status, c.block_table, c.num_computed_tokens, c.num_preemptions) == (SequenceStatus.WAITING, [], 0, 1)
    assert (c.num_tokens, list(scheduler.waiting), schedule.waits_for) == (9, [c], "blocks")
    scheduler.undo(tuple(schedule.scheduled), tuple(schedule.admitted))
    assert c.block_table == [], "a preemption stays"
    late = add(scheduler, "late", 1)
    for _ in range(2):
        assert set(commit(scheduler)) == {"a", "b"}, "nobody overtakes c"
    scheduler.pool.release(a.block_table)
    scheduler.remove(a)
    scheduler.pool.release(b.block_table)
    scheduler.remove(b)
    assert commit(scheduler) == {"c": (9, 0), "late": (1, 0)}
    assert late.num_preemptions == 0


def test_nobody_starts_on_the_blocks_of_who_was_preempted() -> None:
    scheduler = make(max_blocks=4)
    add(scheduler, "a", 3)
    b = add(scheduler, "b", 10)
    commit(scheduler)
    commit(scheduler)
    late = add(scheduler, "late", 1)
    schedule = scheduler.schedule()
    assert ([entry.seq.seq_id for entry in schedule.scheduled], schedule.preempted) == (["a"], [b])
    assert scheduler.pool.num_available == 2
    assert (late.status, scheduler.queue()) == (SequenceStatus.WAITING, [b, late])


def test_who_arrived_last_gives_way_to_those_before() -> None:
    scheduler = make(max_blocks=3)
    add(scheduler, "a", 5)
    b = add(scheduler, "b", 4)
    commit(scheduler)
    schedule = scheduler.schedule()
    assert ([entry.seq.seq_id for entry in schedule.scheduled], schedule.preempted) == (["a"], [b])


def test_nobody_is_preempted_for_nothing() -> None:
    """A sequence that has ended still holds its block, and what the others hold is not enough."""
    scheduler = make(max_blocks=3)
    hog, a = add(scheduler, "hog", 4), add(scheduler, "a", 4)
    commit(scheduler)
    hog.block_table.append(scheduler.pool.alloc())
    scheduler.remove(hog)
    with pytest.raises(OutOfBlocksError, match=r"'a' needs another block.*3 of 3 are in use: release or abort"):
        scheduler.schedule()
    assert (a.num_preemptions, len(a.block_table)) == (0, 1)


def test_the_shortest_goes_first_but_waiting_counts() -> None:
    scheduler = make(policy="sjf", max_num_seqs=1, max_num_batched_tokens=64)
    params = SamplingParams(max_new_tokens=1)
    for name, num_tokens in (("long", 20), ("short", 5)):
        scheduler.add(Sequence(name, [1] * num_tokens, num_tokens, params))
    for _ in range(3):  # a new short one every five steps, which costs 6 tokens and the step of its arrival; long: 21
        [name] = commit(scheduler)
        assert name == "short"
        scheduler.pool.release(scheduler.running[0].block_table)
        scheduler.remove(scheduler.running[0])
        scheduler.num_steps += 4
        scheduler.add(Sequence("short", [1] * 5, 5, params))
    assert list(commit(scheduler)) == ["long"]


def test_prefill_first_lets_decodes_wait() -> None:
    scheduler = make(policy="prefill-first", max_num_batched_tokens=8)
    add(scheduler, "a", 3)
    commit(scheduler)
    add(scheduler, "b", 10)
    assert commit(scheduler) == {"b": (8, 0)}
    assert commit(scheduler) == {"a": (1, 3), "b": (2, 8)}, "one-row sequences stand side by side, before chunks"


def test_decode_first_takes_one_prompt_at_a_time_beside_decodes() -> None:
    scheduler = make(policy="decode-first", max_num_batched_tokens=12)
    add(scheduler, "a", 3)
    add(scheduler, "b", 3)
    assert set(commit(scheduler)) == {"a", "b"}, "nobody decodes yet"
    add(scheduler, "c", 2)
    add(scheduler, "d", 2)
    schedule = scheduler.schedule()
    assert [entry.seq.seq_id for entry in schedule.scheduled] == ["a", "b", "c"]
    assert schedule.waits_for == "policy"


def test_what_the_first_waiting_one_lacks() -> None:
    for config, says in (
        ({"max_num_seqs": 1}, "seqs"), ({"max_num_batched_tokens": 4}, "budget"), ({"max_blocks": 2}, "blocks"),
    ):  # fmt: skip
        scheduler = make(**config)
        add(scheduler, "a", 4)
        add(scheduler, "b", 8)
        assert scheduler.schedule().waits_for == says


def test_reserved_blocks_are_taken_at_the_start() -> None:
    scheduler = make(max_blocks=5, reserve_blocks=True)
    a = Sequence("a", [1] * 3, 3, SamplingParams(max_new_tokens=10))
    b = Sequence("b", [1] * 3, 3, SamplingParams(max_new_tokens=10))
    scheduler.add(a)
    scheduler.add(b)
    schedule = scheduler.schedule()
    assert (len(a.block_table), len(b.block_table), schedule.waits_for) == (3, 0, "blocks")
    scheduler.undo(tuple(schedule.scheduled), tuple(schedule.admitted))
    assert (a.block_table, scheduler.pool.num_used) == ([], 0)


def static(**config: object) -> StaticScheduler:
    options = {"block_size": 4, "batching": "static", **config}
    return StaticScheduler(EngineConfig(**options), BlockPool(chunk_blocks=2, max_blocks=100))


def test_a_static_batch_goes_in_lock_step() -> None:
    scheduler = static(max_num_seqs=2, max_num_batched_tokens=8)
    a, b = add(scheduler, "a", 3), add(scheduler, "b", 6)
    add(scheduler, "c", 1)
    assert [commit(scheduler)[name] for name in "a"] == [(3, 0)]
    assert commit(scheduler) == {"a": (0, 3), "b": (2, 4)}, "a has its first token, and waits for b"
    schedule = scheduler.schedule()
    assert ([n for _, n, _ in schedule.scheduled], schedule.width, schedule.waits_for) == ([1, 1], 1, "batch")
    scheduler.undo(tuple(schedule.scheduled), tuple(schedule.admitted))
    scheduler.remove(a)
    a.finish("length")
    assert commit(scheduler) == {"a": (0, 3), "b": (1, 6)}
    scheduler.remove(b)
    b.finish("length")
    assert commit(scheduler) == {"c": (1, 0)}


def test_an_undone_start_of_a_static_batch_leaves_no_batch() -> None:
    scheduler = static()
    a = add(scheduler, "a", 3)
    schedule = scheduler.schedule()
    scheduler.undo(tuple(schedule.scheduled), tuple(schedule.admitted))
    assert (scheduler.batch, list(scheduler.waiting), scheduler.pool.num_used) == ([], [a], 0)
    assert commit(scheduler) == {"a": (3, 0)}


def test_rows_of_a_static_batch_without_paging_are_as_long_as_the_longest() -> None:
    scheduler = static(reserve_blocks=True)
    for name, num_tokens in (("a", 3), ("b", 9)):
        scheduler.add(Sequence(name, [1] * num_tokens, num_tokens, SamplingParams(max_new_tokens=8)))
    scheduler.schedule()
    assert [len(seq.block_table) for seq in scheduler.batch] == [4, 4]


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
