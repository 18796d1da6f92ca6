"""Static batching: a batch is formed, and nobody joins or leaves before all of it is done. Plain Python.

Every sequence brings the same number of rows to a step, the width. Who has fewer tokens to bring is filled up with
padding, and who is done, or waits for the others to have their prompts computed, brings nothing but padding. A batch
holds as many of the waiting, in the order of the policy, as find blocks for all that they can ever compute.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from miniinfer.config import EngineConfig
from miniinfer.engine.block_pool import BlockPool
from miniinfer.engine.policies import ORDERS
from miniinfer.engine.scheduler import Schedule, Scheduled, Scheduler
from miniinfer.engine.sequence import Sequence
from miniinfer.errors import BadInputError


class StaticScheduler(Scheduler):
    """`batch`: the sequences of the running batch, finished ones included as long as they hold blocks."""

    def __init__(self, config: EngineConfig, pool: BlockPool, context_length: int | None = None) -> None:
        super().__init__(config, pool, context_length)
        self.batch: list[Sequence] = []

    @property
    def batch_is_over(self) -> bool:
        return all(seq.finished for seq in self.batch)

    def schedule(self, parked: AbstractSet[Sequence] = frozenset(), only: Sequence | None = None) -> Schedule:
        """The next step of the batch; the first of a new one if it is over. Nobody is ever preempted.

        Raises OutOfBlocksError or BadInputError, with nothing changed, if there is no batch to run.
        """
        if parked or only is not None:
            raise BadInputError("A static batch is stepped as a whole: end the parked step, and step all at once.")
        schedule = Schedule(self.config.max_num_batched_tokens)
        self.batch = [seq for seq in self.batch if seq.block_table]  # an aborted one has left
        if self.batch_is_over:
            self._form(schedule)
        elif self.waiting:
            schedule.waits_for = "batch"
        if not self.batch:
            raise self._nobody(self.queue(), parked)
        prompts = [seq for seq in self.batch if not seq.finished and seq.in_prefill]
        schedule.width = self._width(prompts)
        for seq in self.batch:
            takes_part = seq in prompts if prompts else not seq.finished
            num_tokens = min(seq.num_uncomputed_tokens, schedule.width) if takes_part else 0
            schedule.scheduled.append(Scheduled(seq, num_tokens, seq.num_computed_tokens))
            self._extend_table(seq, seq.num_computed_tokens + num_tokens)
        schedule.tokens_left -= schedule.width * len(self.batch)
        self.num_steps += 1
        return schedule

    def undo(self, scheduled: tuple[Scheduled, ...], admitted: tuple[Sequence, ...]) -> None:
        super().undo(scheduled, admitted)
        self.batch = [seq for seq in self.batch if seq not in admitted]

    def _width(self, prompts: list[Sequence]) -> int:
        """Rows of each sequence: as wide as the longest prompt, in chunks that keep to the token budget."""
        longest = max((seq.num_uncomputed_tokens for seq in prompts), default=1)
        return min(longest, max(1, self.config.max_num_batched_tokens // len(self.batch)))

    def _form(self, schedule: Schedule) -> None:
        """Take a new batch out of the queue; leave it empty if not even the first finds its blocks."""
        most = min(self.config.max_num_seqs, self.config.max_num_batched_tokens)
        batch: list[Sequence] = []
        for seq in sorted(self.waiting, key=ORDERS[self.config.policy]):
            if len(batch) == most:
                schedule.waits_for = "seqs"
                break
            if self._needs([*batch, seq]) > self.pool.num_available:
                schedule.waits_for = "blocks"
                break
            batch.append(seq)
        row = self._row_positions(batch) if self.config.reserve_blocks else 0
        for seq in batch:
            self._take_cached(seq, self._find_cached(seq))
            self._extend_table(seq, row)
            self._set_running(schedule, seq)
        self.batch = batch

    def _needs(self, batch: list[Sequence]) -> int:
        """Blocks that a batch can come to need. Without paging each row is as long as the longest."""
        if self.config.reserve_blocks:
            return len(batch) * self._blocks_for(self._row_positions(batch))
        return sum(
            self._blocks_for(self._reserved_positions(seq)) - len(seq.block_table) + self._copies(seq) for seq in batch
        )

    def _row_positions(self, batch: list[Sequence]) -> int:
        return max((self._reserved_positions(seq) for seq in batch), default=0)
