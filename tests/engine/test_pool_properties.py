"""Scheduler and block pool under random arrivals, forks, aborts, releases and preemptions, with every policy, with and
without a prefix cache and reserved blocks, and with a model of the cache beside them.

The model stores, in every slot, the beginning of the sequence that it was written for. Whatever happens, a sequence
must read its own beginning in each of its positions: then no slot has two owners who disagree (law 10).
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from miniinfer.config import POLICIES, EngineConfig, SamplingParams
from miniinfer.engine.accounts import check_books, used_positions
from miniinfer.engine.block_pool import BlockCopy, BlockPool
from miniinfer.engine.placement import copy_shared_blocks
from miniinfer.engine.scheduler import Scheduled, Scheduler
from miniinfer.engine.sequence import Sequence
from miniinfer.engine.static_scheduler import StaticScheduler
from miniinfer.errors import OutOfBlocksError

SIZE = 3


class FakeCache:
    """Slots that hold beginnings of sequences in place of numbers."""

    def __init__(self) -> None:
        self.slots: dict[int, tuple[int, ...]] = {}

    def grow_to(self, num_blocks: int) -> None: ...

    def copy_block(self, source: int, target: int, num_positions: int) -> None:
        for i in range(SIZE):
            self.slots.pop(target * SIZE + i, None)
            if i < num_positions and source * SIZE + i in self.slots:
                self.slots[target * SIZE + i] = self.slots[source * SIZE + i]


class Machine(RuleBasedStateMachine):
    sequences = Bundle("sequences")

    @initialize(policy=st.sampled_from(sorted(POLICIES)), memory=st.sampled_from(["plain", "prefixes", "reserved"]))
    def begin(self, policy: str, memory: str) -> None:
        self.config = EngineConfig(
            block_size=SIZE, max_num_batched_tokens=7, max_num_seqs=4, policy=policy,
            prefix_caching=memory == "prefixes", reserve_blocks=memory == "reserved",
        )  # fmt: skip
        self.pool = BlockPool(chunk_blocks=2, max_blocks=11)
        self.scheduler = Scheduler(self.config, self.pool)
        self.kv_cache = FakeCache()
        self.block_copies: list[BlockCopy] = []
        self.all: list[Sequence] = []
        self.names = 0

    @rule(
        target=sequences, num_tokens=st.integers(1, 20), chunk=st.sampled_from([None, 1, 2, 5]),
        family=st.integers(0, 2), own=st.integers(0, 20),
    )  # fmt: skip
    def arrive(self, num_tokens: int, chunk: int | None, family: int, own: int) -> Sequence:
        """Those of one family begin alike, and two families differ in their first token alone; the last `own` tokens
        are the sequence's own."""
        tokens = [family, *range(100, 120)][: max(0, num_tokens - own)]
        tokens += [1000 * (self.names + 1) + i for i in range(num_tokens - len(tokens))]
        params = SamplingParams(max_new_tokens=6)
        return self.add(Sequence(f"s{self.names}", tokens, num_tokens, params, prefill_chunk=chunk))

    @rule(target=sequences, seq=sequences, at=st.floats(0, 1), force=st.booleans())
    def fork(self, seq: Sequence, at: float, force: bool) -> Sequence:
        length = max(1, round(at * seq.num_tokens))
        tokens = seq.token_ids[:length] + [7] * force
        computed = min(seq.num_computed_tokens, length, len(tokens) - 1)
        branch = Sequence(
            f"s{self.names}", tokens, min(length, seq.num_prompt_tokens), SamplingParams(),
            num_computed_tokens=computed, block_table=seq.block_table[: -(-computed // SIZE)],
        )  # fmt: skip
        self.pool.share(branch.block_table)
        return self.add(branch)

    @rule(seq=sequences)
    def end(self, seq: Sequence) -> None:
        if not seq.finished:
            self.scheduler.remove(seq)
            seq.finish("length")

    @rule(seq=consumes(sequences))
    def abort_and_release(self, seq: Sequence) -> None:
        self.end(seq)
        self.pool.release(seq.block_table)
        seq.block_table, seq.num_computed_tokens = [], 0
        self.all.remove(seq)

    @rule(only=st.none() | sequences, interrupted=st.sampled_from([None, None, "before writing", "after writing"]))
    def step(self, only: Sequence | None, interrupted: str | None) -> None:
        if not self.scheduler.has_unfinished or (only is not None and only.finished):
            return
        try:
            schedule = self.scheduler.schedule(only=only)
        except OutOfBlocksError:
            return
        for seq in schedule.preempted:
            assert seq.block_table == []
            assert seq in self.scheduler.waiting
        tokens = sum(n for _, n, _ in schedule.scheduled)
        assert tokens <= self.config.max_num_batched_tokens
        assert schedule.scheduled
        assert len(self.scheduler.running) <= self.config.max_num_seqs or only is not None or not schedule.admitted
        if interrupted != "before writing":
            for entry in schedule.scheduled:
                self.write(entry)
        if interrupted:
            self.scheduler.undo(tuple(schedule.scheduled), tuple(schedule.admitted))
            return
        for entry in schedule.scheduled:
            entry.seq.num_computed_tokens = entry.stop
            self.scheduler.computed(entry)
            if entry.stop == entry.seq.num_tokens:
                entry.seq.token_ids.append(1000 + entry.seq.num_tokens)

    @rule(count=st.integers(2, 9))
    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step(None, None)

    @invariant()
    def copies_are_private(self) -> None:
        for made in self.block_copies:
            assert made.source != made.target
            assert 0 < made.num_positions <= SIZE
            assert made.index == made.position // SIZE, "the block that is written first is the only shared one"

    @invariant()
    def books_balance(self) -> None:
        check_books(self.all, self.scheduler, frozenset())
        assert used_positions(self.all, SIZE) <= self.pool.num_used * SIZE
        assert self.config.prefix_caching or not self.pool.prefixes.free

    @invariant()
    def every_sequence_reads_its_own_past(self) -> None:
        for seq in self.all:
            for position in range(seq.num_computed_tokens):
                slot = seq.block_table[position // SIZE] * SIZE + position % SIZE
                assert self.kv_cache.slots[slot] == tuple(seq.token_ids[: position + 1])

    def teardown(self) -> None:
        """Nobody starves: let each one end a few tokens from here, and everybody gets there; nothing leaks."""
        goals = {seq: seq.num_tokens + 3 for seq in self.all}
        for _ in range(2000):
            for seq in [seq for seq in self.all if seq.finished or seq.num_tokens >= goals[seq]]:
                self.abort_and_release(seq)
            if not self.all:
                break
            steps = self.scheduler.num_steps
            self.step(None, None)
            if self.scheduler.num_steps == steps:  # nobody finds a block
                self.abort_and_release((*self.scheduler.waiting, *self.scheduler.running)[-1])
        assert self.all == []
        assert self.pool.num_used == 0

    def add(self, seq: Sequence) -> Sequence:
        self.all.append(seq)
        self.names += 1
        self.scheduler.add(seq)
        return seq

    def write(self, entry: Scheduled) -> None:
        copy_shared_blocks(self, entry)  # the machine has all that it asks of an engine
        for position in range(entry.start, entry.stop):
            slot = entry.seq.block_table[position // SIZE] * SIZE + position % SIZE
            self.kv_cache.slots[slot] = tuple(entry.seq.token_ids[: position + 1])


TestPool = Machine.TestCase
TestPool.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


@settings(max_examples=150, deadline=None)
@given(
    requests=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 12), st.integers(0, 15)), min_size=3, max_size=12),
    policy=st.sampled_from(sorted(POLICIES)), static=st.booleans(),
    memory=st.sampled_from(["plain", "prefixes", "reserved"]), budget=st.integers(1, 12), spare=st.integers(0, 4),
)  # fmt: skip
def test_everybody_gets_there(requests, policy, static, memory, budget, spare) -> None:
    """Requests (arrival step, prompt, new tokens), each of which fits into the pool alone, until all have ended: nobody
    starves, whatever the policy, and every block comes back."""
    config = EngineConfig(
        block_size=SIZE, max_num_batched_tokens=budget, max_num_seqs=4, policy=policy,
        prefix_caching=memory == "prefixes", reserve_blocks=memory == "reserved",
    )  # fmt: skip
    largest = max(-(-(prompt + max(0, new - 1)) // SIZE) for _, prompt, new in requests)
    pool = BlockPool(chunk_blocks=4, max_blocks=largest + spare)
    scheduler = (StaticScheduler if static else Scheduler)(config, pool)
    coming = sorted(requests)
    alive: list[Sequence] = []
    most_work = sum(prompt + new + 1 for _, prompt, new in requests)
    for step in range(10 + 20 * most_work):
        while coming and coming[0][0] <= step:
            _, prompt, new = coming.pop(0)
            seq = Sequence(f"s{len(coming)}", list(range(prompt)), prompt, SamplingParams(max_new_tokens=new))
            alive.append(seq)
            scheduler.add(seq)
        if not scheduler.has_unfinished:
            if not coming:
                break
            continue
        schedule = scheduler.schedule()
        slots = schedule.width * len(schedule.scheduled) or sum(entry.num_tokens for entry in schedule.scheduled)
        assert slots <= budget
        for entry in schedule.scheduled:
            seq = entry.seq
            if entry.num_tokens == 0:
                continue
            seq.num_computed_tokens = entry.stop
            scheduler.computed(entry)
            if entry.stop == seq.num_tokens:
                if seq.num_output_tokens < seq.params.max_new_tokens:
                    seq.token_ids.append(50 + seq.num_output_tokens)
                if seq.num_output_tokens == seq.params.max_new_tokens:
                    scheduler.remove(seq)
                    seq.finish("length")
        check_books(alive, scheduler, frozenset())
        if not static or not scheduler.running:
            for seq in [seq for seq in alive if seq.finished]:
                pool.release(seq.block_table)
                seq.block_table, seq.num_computed_tokens = [], 0
                alive.remove(seq)
    assert alive == []
    assert coming == []
    assert pool.num_used == 0
