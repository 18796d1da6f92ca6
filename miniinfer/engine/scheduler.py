"""Who takes part in the next step, with how many tokens. Plain Python: it moves counts and block ids, no tensors.

First come, first served, within a budget of tokens. Sequences that decode go first, one token each, so that nobody who
is reading along waits for somebody else's prompt; what is left of the budget computes prompts, in chunks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from miniinfer.config import EngineConfig
from miniinfer.engine.block_pool import BlockPool
from miniinfer.engine.sequence import Sequence, SequenceStatus
from miniinfer.errors import BadInputError, MiniInferError, OutOfBlocksError


class Scheduled(NamedTuple):
    """One sequence's share of a step: tokens start .. stop - 1 of it."""

    seq: Sequence
    num_tokens: int
    start: int

    @property
    def stop(self) -> int:
        """Positions in the cache after the step: the context length of the newest row."""
        return self.start + self.num_tokens


@dataclass
class Schedule:
    """The choice for one step, and what was left of tokens and blocks when it was made."""

    tokens_left: int
    blocks_left: int
    scheduled: list[Scheduled] = field(default_factory=list)
    admitted: list[Sequence] = field(default_factory=list)


class Scheduler:
    """The queues, and the blocks that their sequences need. Between steps a block table covers exactly the computed
    tokens of its sequence; during a step it also covers those that the step computes."""

    def __init__(self, config: EngineConfig, pool: BlockPool) -> None:
        self.config = config
        self.pool = pool
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []

    @property
    def has_unfinished(self) -> bool:
        return bool(self.waiting or self.running)

    def add(self, seq: Sequence) -> None:
        self.waiting.append(seq)

    def remove(self, seq: Sequence) -> None:
        """Take a sequence that has finished out of its queue."""
        queue = self.running if seq in self.running else self.waiting
        queue.remove(seq)

    def schedule(self, parked: AbstractSet[Sequence] = frozenset(), only: Sequence | None = None) -> Schedule:
        """Choose who runs, and give them the blocks they need. `parked` sequences stand in another, unfinished step;
        `only` leaves all others out.

        Raises OutOfBlocksError or BadInputError, with nothing changed, if nobody can take part.
        """
        schedule = Schedule(self.config.max_num_batched_tokens, self.pool.num_available)
        able = [seq for seq in self.running if seq not in parked and only in (None, seq)]
        waiting = [seq for seq in self.waiting if only in (None, seq)]
        for seq in sorted(able, key=lambda seq: seq.in_prefill):  # decode before prefill, else in order of arrival
            self._take(schedule, seq)
        room = len(waiting) if only else self.config.max_num_seqs - len(self.running)
        self._admit(schedule, waiting[: max(room, 0)])
        if not schedule.scheduled:
            raise self._nobody([*able, *waiting], parked)
        for entry in schedule.scheduled:
            self._extend_table(entry)
        for seq in schedule.admitted:
            self.waiting.remove(seq)
            self.running.append(seq)
            seq.status = SequenceStatus.RUNNING
        return schedule

    def undo(self, scheduled: tuple[Scheduled, ...], admitted: tuple[Sequence, ...]) -> None:
        """Put tables and queues back as they were before `schedule`: the step will not be committed."""
        for seq, _, _ in scheduled:
            covering = self._blocks_for(seq.num_computed_tokens)
            self.pool.release(seq.block_table[covering:])
            del seq.block_table[covering:]
        for seq in reversed(admitted):
            self.running.remove(seq)
            self.waiting.appendleft(seq)
            seq.status = SequenceStatus.WAITING

    def blocks_needed(self, seq: Sequence, num_tokens: int) -> int:
        """Blocks to take from the pool before the next tokens of this sequence can be written: those past the end of
        its table, and one for copy-on-write if the block it writes into first is shared."""
        more = self._blocks_for(seq.num_computed_tokens + num_tokens) - len(seq.block_table)
        first_written = seq.num_computed_tokens // self.config.block_size
        copied = first_written < len(seq.block_table) and self.pool.is_shared(seq.block_table[first_written])
        return more + copied

    def _take(self, schedule: Schedule, seq: Sequence) -> bool:
        """Give the sequence its place in this step, if tokens and blocks are left."""
        num_tokens = min(seq.num_uncomputed_tokens, schedule.tokens_left, seq.prefill_chunk or seq.num_tokens)
        if num_tokens == 0:
            return False
        needed = self.blocks_needed(seq, num_tokens)
        if needed > schedule.blocks_left:
            # The sequence waits until others give blocks back. Preemption, taking them from the sequence that came
            # last, belongs here.
            return False
        schedule.tokens_left -= num_tokens
        schedule.blocks_left -= needed
        schedule.scheduled.append(Scheduled(seq, num_tokens, seq.num_computed_tokens))
        return True

    def _admit(self, schedule: Schedule, waiting: list[Sequence]) -> None:
        """Let waiting sequences start, in order. One starts only if all its tokens find blocks beside those that the
        prompts already running will still need: two half-computed prompts must not wait for each other."""
        taken = {seq: num_tokens for seq, num_tokens, _ in schedule.scheduled}
        promised = sum(self._blocks_later(seq, taken.get(seq, 0)) for seq in self.running)
        for seq in waiting:
            if self.blocks_needed(seq, seq.num_uncomputed_tokens) > schedule.blocks_left - promised:
                return
            if not self._take(schedule, seq):
                return
            schedule.admitted.append(seq)
            promised += self._blocks_later(seq, schedule.scheduled[-1].num_tokens)

    def _blocks_later(self, seq: Sequence, num_tokens: int) -> int:
        """Blocks that the tokens it has now will need after this step, in which it computes num_tokens."""
        covered = max(len(seq.block_table), self._blocks_for(seq.num_computed_tokens + num_tokens))
        return self._blocks_for(seq.num_tokens) - covered

    def _extend_table(self, entry: Scheduled) -> None:
        table = entry.seq.block_table
        while len(table) < self._blocks_for(entry.stop):
            table.append(self.pool.alloc(after=table[-1] if table else None))

    def _blocks_for(self, num_positions: int) -> int:
        return -(-num_positions // self.config.block_size)

    def _nobody(self, candidates: list[Sequence], parked: AbstractSet[Sequence]) -> MiniInferError:
        """Why a step would be empty."""
        if parked:
            return BadInputError("Nobody else can run while a step is parked: advance it to its end, or abandon it.")
        if not candidates:
            return BadInputError("There is no unfinished sequence to run: add a request.")
        return OutOfBlocksError(
            f"Sequence {candidates[0].seq_id!r} needs another block of the KV cache, but {self.pool.num_used} of "
            f"{self.pool.max_blocks} are in use: release or abort a run, or allow more blocks (max_blocks)."
        )
