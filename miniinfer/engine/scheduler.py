"""Who takes part in the next step, with how many tokens. Plain Python: it moves counts and block ids, no tensors.

Continuous batching: in every step each running sequence may bring tokens, one in decode and a chunk of its prompt
before that, until the token budget is used up; waiting ones join as soon as there is room. The policy decides who is
asked first. When a running sequence needs a block and none is left, the one that arrived last is preempted: it gives
all its blocks back and waits again; when it returns, its prompt and output so far are computed anew.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from miniinfer.config import EngineConfig
from miniinfer.engine.block_pool import BlockPool
from miniinfer.engine.policies import ORDERS
from miniinfer.engine.prefix_cache import extend_hashes
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
    """The choice for one step. copies: blocks that copy-on-write will take from the pool when the step writes.

    waits_for: what the first waiting sequence lacks: budget | seqs | blocks | policy | batch. width: rows of every
    sequence in a padded step, 0 if rows are not padded.
    """

    tokens_left: int
    copies: int = 0
    scheduled: list[Scheduled] = field(default_factory=list)
    admitted: list[Sequence] = field(default_factory=list)
    preempted: list[Sequence] = field(default_factory=list)
    waits_for: str | None = None
    width: int = 0


class Scheduler:
    """The queues, and the blocks that their sequences need. Between steps a block table covers exactly the computed
    tokens of its sequence (or, if blocks are reserved, all it can ever have); during a step it also covers those that
    the step computes."""

    def __init__(self, config: EngineConfig, pool: BlockPool, context_length: int | None = None) -> None:
        self.config = config
        self.pool = pool
        self.context_length = context_length or config.context_length
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.num_steps = 0  # planned so far
        self._arrivals = 0

    @property
    def has_unfinished(self) -> bool:
        return bool(self.waiting or self.running)

    def add(self, seq: Sequence) -> None:
        seq.arrival, seq.arrival_step = self._arrivals, self.num_steps
        self._arrivals += 1
        self.waiting.append(seq)

    def remove(self, seq: Sequence) -> None:
        """Take a sequence that has finished out of its queue."""
        queue = self.running if seq in self.running else self.waiting
        queue.remove(seq)

    def queue(self) -> list[Sequence]:
        """Who waits, in the order in which they will be served."""
        return sorted(self.waiting, key=ORDERS[self.config.policy])

    def most_rows(self, only: Sequence | None) -> int:
        """As many rows the next step may have, of this sequence or of all: one for each token that is not computed."""
        seqs = (*self.running, *self.waiting) if only is None else (only,)
        return sum(seq.num_uncomputed_tokens for seq in seqs)

    def schedule(self, parked: AbstractSet[Sequence] = frozenset(), only: Sequence | None = None) -> Schedule:
        """Choose who runs, and give them the blocks they need. `parked` sequences stand in another, unfinished step;
        `only` leaves all others out, and preempts nobody.

        Raises OutOfBlocksError or BadInputError, with nobody's tokens changed, if nobody can take part.
        """
        schedule = Schedule(self.config.max_num_batched_tokens)
        able = [seq for seq in (*self.running, *self.waiting) if seq not in parked and only in (None, seq)]
        for seq in sorted(able, key=ORDERS[self.config.policy]):
            if seq.status is SequenceStatus.RUNNING:
                if not self._one_prompt_is_enough(schedule, seq):
                    self._go_on(schedule, seq, parked, alone=only is not None)
            elif schedule.waits_for is None and seq not in schedule.preempted:
                schedule.waits_for = self._start(schedule, seq, alone=only is not None)
        if not schedule.scheduled:
            raise self._nobody(able, parked)
        if schedule.preempted:
            schedule.waits_for = "blocks"
        # Whoever was asked first, the one-row sequences stand side by side: they attend as one group.
        schedule.scheduled.sort(key=lambda entry: entry.seq.in_prefill)
        self.num_steps += 1
        return schedule

    def undo(self, scheduled: tuple[Scheduled, ...], admitted: tuple[Sequence, ...]) -> None:
        """Put tables and queues back as they were before `schedule`: the step will not be committed. Who was preempted
        stays so, for its blocks may have been written by others; it loses time and no token."""
        self.num_steps -= 1
        for seq, _, _ in scheduled:
            if seq in admitted and seq.num_computed_tokens == seq.num_cached_tokens:
                seq.num_computed_tokens = seq.num_cached_tokens = 0
            if seq in admitted or not self.config.reserve_blocks:
                covering = self._blocks_for(seq.num_computed_tokens)
                self.pool.release(seq.block_table[covering:])
                del seq.block_table[covering:]
        for seq in reversed(admitted):
            self.running.remove(seq)
            self.waiting.appendleft(seq)
            seq.status = SequenceStatus.WAITING

    def computed(self, entry: Scheduled) -> None:
        """Let the prefix cache know the blocks that this share of a committed step has filled."""
        if not self.config.prefix_caching:
            return
        seq, size = entry.seq, self.config.block_size
        extend_hashes(seq.block_hashes, seq.token_ids, size, entry.stop // size)
        for i in range(entry.start // size, entry.stop // size):
            self.pool.prefixes.register(seq.block_table[i], seq.block_hashes[i])

    def blocks_needed(self, seq: Sequence, num_tokens: int) -> int:
        """Blocks to take from the pool before the next tokens of this sequence can be written: those past the end of
        its table, and one for copy-on-write if the block it writes into first is shared."""
        more = self._blocks_for(seq.num_computed_tokens + num_tokens) - len(seq.block_table)
        return max(0, more) + self._copies(seq)

    # --- running sequences ---

    def _one_prompt_is_enough(self, schedule: Schedule, seq: Sequence) -> bool:
        """decode-first: beside decodes, one prompt at a time. They have been asked before any prompt."""
        if self.config.policy != "decode-first" or not seq.in_prefill:
            return False
        prompts = [entry for entry in schedule.scheduled if entry.seq.in_prefill]
        return bool(prompts) and len(prompts) < len(schedule.scheduled)

    def _go_on(self, schedule: Schedule, seq: Sequence, parked: AbstractSet[Sequence], alone: bool) -> None:
        """Give a running sequence its share of the step, if tokens are left and blocks can be found."""
        num_tokens = self._share(schedule, seq)
        if num_tokens == 0:
            return
        lacking = self.blocks_needed(seq, num_tokens) - (self.pool.num_available - schedule.copies)
        if lacking > 0 and (alone or not self._make_room(schedule, seq, lacking, parked)):
            return
        self._take(schedule, seq, num_tokens)

    def _make_room(self, schedule: Schedule, seq: Sequence, lacking: int, parked: AbstractSet[Sequence]) -> bool:
        """Preempt those that arrived after `seq`, the last one first, until blocks are left for it. If they do not hold
        enough, it is itself the one that arrived last of those who matter, and gives way to the others. False if it
        has to wait."""
        rivals = [other for other in self.running if other is not seq and other not in parked]
        later = sorted((other for other in rivals if other.arrival > seq.arrival), key=lambda other: -other.arrival)
        before = self.pool.num_available - schedule.copies
        if self._would_free(later) < lacking:
            if len(later) < len(rivals):
                self._preempt(schedule, seq)
            return False
        for victim in later:
            self._preempt(schedule, victim)
            if self.pool.num_available - schedule.copies >= before + lacking:
                break
        return True

    def _would_free(self, seqs: list[Sequence]) -> int:
        """Blocks that nobody else holds."""
        entries = Counter(block for seq in seqs for block in seq.block_table)
        return sum(self.pool.ref_counts[block] == count for block, count in entries.items())

    def _preempt(self, schedule: Schedule, seq: Sequence) -> None:
        for entry in [entry for entry in schedule.scheduled if entry.seq is seq]:
            schedule.scheduled.remove(entry)
            schedule.tokens_left += entry.num_tokens
            schedule.copies -= self._copies(seq)
        self.pool.release(seq.block_table)
        seq.block_table = []
        seq.num_computed_tokens = seq.num_cached_tokens = 0
        seq.num_preemptions += 1
        seq.status = SequenceStatus.WAITING
        self.running.remove(seq)
        self.waiting.appendleft(seq)
        if seq in schedule.admitted:
            schedule.admitted.remove(seq)
        schedule.preempted.append(seq)

    # --- waiting sequences ---

    def _start(self, schedule: Schedule, seq: Sequence, alone: bool) -> str | None:
        """Let a waiting sequence join the step; else say what it lacks. It starts only if all its tokens find blocks
        beside those that the running ones still need for theirs: half-computed prompts must not wait for each other."""
        if self._one_prompt_is_enough(schedule, seq):
            return "policy"
        if schedule.tokens_left == 0:
            return "budget"
        if not alone and len(self.running) >= self.config.max_num_seqs:
            return "seqs"
        cached = self._find_cached(seq)
        positions = self._reserved_positions(seq) if self.config.reserve_blocks else seq.num_tokens
        from_pool = self._blocks_for(positions) - len(seq.block_table) - len(cached) + self._copies(seq)
        from_pool += sum(self.pool.ref_counts[block] == 0 for block in cached)
        promised = schedule.copies + sum(self._still_needs(other) for other in self.running)
        if schedule.preempted or from_pool > self.pool.num_available - promised:
            return "blocks"
        self._take_cached(seq, cached)
        self._take(schedule, seq, self._share(schedule, seq))
        self._extend_table(seq, positions if self.config.reserve_blocks else 0)
        self._set_running(schedule, seq)
        return None

    def _set_running(self, schedule: Schedule, seq: Sequence) -> None:
        self.waiting.remove(seq)
        self.running.append(seq)
        seq.status = SequenceStatus.RUNNING
        schedule.admitted.append(seq)

    def _find_cached(self, seq: Sequence) -> list[int]:
        """Blocks that hold a beginning of the sequence. Its last token is computed in any case, for its logits."""
        if not self.config.prefix_caching or seq.block_table:
            return []
        num_blocks = (seq.num_tokens - 1) // self.config.block_size
        extend_hashes(seq.block_hashes, seq.token_ids, self.config.block_size, num_blocks)
        return self.pool.prefixes.find(seq.block_hashes[:num_blocks])

    def _take_cached(self, seq: Sequence, blocks: list[int]) -> None:
        if blocks:
            self.pool.take_cached(blocks)
            seq.block_table = list(blocks)
            seq.num_computed_tokens = seq.num_cached_tokens = len(blocks) * self.config.block_size

    def _still_needs(self, seq: Sequence) -> int:
        """Blocks that the tokens which a running sequence has now will take, beyond those it was given."""
        return max(0, self._blocks_for(seq.num_tokens) - len(seq.block_table))

    # --- shares and blocks ---

    def _share(self, schedule: Schedule, seq: Sequence) -> int:
        return min(seq.num_uncomputed_tokens, schedule.tokens_left, seq.prefill_chunk or seq.num_tokens)

    def _take(self, schedule: Schedule, seq: Sequence, num_tokens: int) -> None:
        schedule.tokens_left -= num_tokens
        schedule.copies += self._copies(seq)
        schedule.scheduled.append(Scheduled(seq, num_tokens, seq.num_computed_tokens))
        for block in seq.block_table[seq.num_computed_tokens // self.config.block_size :]:
            if not self.pool.is_shared(block):
                self.pool.prefixes.forget(block)  # a fork goes another way from the middle of it: nobody may find it
        self._extend_table(seq, seq.num_computed_tokens + num_tokens)

    def _copies(self, seq: Sequence) -> int:
        """1 if the block that it writes into first is shared, and will be copied."""
        first_written = seq.num_computed_tokens // self.config.block_size
        return int(first_written < len(seq.block_table) and self.pool.is_shared(seq.block_table[first_written]))

    def _extend_table(self, seq: Sequence, num_positions: int) -> None:
        table = seq.block_table
        while len(table) < self._blocks_for(num_positions):
            table.append(self.pool.alloc(after=table[-1] if table else None))

    def _reserved_positions(self, seq: Sequence) -> int:
        return max(seq.num_tokens, min(seq.final_num_positions, self.context_length or seq.final_num_positions))

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
