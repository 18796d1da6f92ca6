"""The engine of one user: requests go in, `step` computes one more piece of each, `fork` goes back and branches.

Reading order of this package: engine, program, stages/ (inputs, attention, mlp, output), then what they lean on: state,
scheduler, policies, block_pool and prefix_cache, kv_cache and placement, groups, logits and sampler; static_scheduler
and padding for static batching.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
from collections.abc import Iterable
from collections.abc import Sequence as SequenceOf

import torch

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine import groups
from miniinfer.engine.accounts import check_books, used_positions
from miniinfer.engine.backend import Backend, backend_of
from miniinfer.engine.block_pool import BlockCopy, BlockPool
from miniinfer.engine.driver import run_stages
from miniinfer.engine.finish import finish_reason
from miniinfer.engine.kv_cache import KVCache
from miniinfer.engine.machine_faults import raise_in_words
from miniinfer.engine.ops import Rope
from miniinfer.engine.padding import padded_program
from miniinfer.engine.program import build_program
from miniinfer.engine.requests import checked_chunk, checked_context, checked_id, checked_prompt
from miniinfer.engine.scheduler import Scheduler
from miniinfer.engine.sequence import Sequence
from miniinfer.engine.stage import Observer, Stage
from miniinfer.engine.state import StepState
from miniinfer.engine.static_scheduler import StaticScheduler
from miniinfer.engine.weights import ModelLike
from miniinfer.errors import BadInputError, OutOfBlocksError


class Engine:
    """Weights and vocabulary are shared and never written; sequences, scheduler and KV cache belong to this engine.

    `program` and `make_groups` can be replaced, to show what a changed stage does or to compare with a reference.
    backend: what computes the stages and products of the engine's own program; None: what the model chooses.
    """

    def __init__(
        self,
        model: ModelLike,
        config: EngineConfig | None = None,
        *,
        program: tuple[Stage, ...] | None = None,
        make_groups: groups.MakeGroups | None = None,
        backend: Backend | None = None,
    ) -> None:
        self.model = model
        self.model_config = model.config
        self.backend = backend or backend_of(model)
        self.weights = self.backend.weights(model.weights)
        self.config = config or EngineConfig()
        self.device = model.weights.device
        static = self.config.batching == "static"
        self.program = program or self.backend.program((padded_program if static else build_program)(model.config))
        self.make_groups = make_groups or functools.partial(groups.make_groups, group_cost=self.backend.group_cost)
        self.context_length = checked_context(self.config.context_length, model.config.context_length)
        self.rope = Rope(model.config, model.weights.dtype, self.device)
        one_context = -(-self.context_length // self.config.block_size)  # in blocks
        max_blocks = self.config.max_blocks or one_context * self.config.max_num_seqs
        self.pool = BlockPool(self.config.pool_chunk_blocks, max_blocks)
        self.kv_cache = KVCache(model.config, self.config.block_size, model.weights.dtype, self.device)
        self.scheduler = (StaticScheduler if static else Scheduler)(self.config, self.pool, self.context_length)
        self.sequences: dict[str, Sequence] = {}  # by id: all that were added or forked and not released
        self.block_copies: list[BlockCopy] = []  # copy-on-writes of these sequences, in order
        self.open_states: list[StepState] = []  # steps that were begun and neither committed nor abandoned
        self._numbers = itertools.count(1)

    # --- requests ---

    def add_request(
        self,
        prompt_ids: Iterable[int],
        params: SamplingParams | None = None,
        *,
        seq_id: str | None = None,
        prefill_chunk: int | None = None,
    ) -> Sequence:
        """Queue a prompt. Nothing runs before `step`. Raises BadInputError or OutOfBlocksError with nothing changed.

        prefill_chunk: the most prompt tokens that one step may compute for this sequence (1: token by token).
        """
        token_ids = checked_prompt(prompt_ids, self.model_config.vocab_size, self.context_length)
        needed = -(-len(token_ids) // self.config.block_size)
        if needed > self.pool.max_blocks:
            raise OutOfBlocksError(
                f"The prompt needs {needed} blocks of the KV cache, but it has only {self.pool.max_blocks}: "
                "shorten the prompt, or allow more blocks (max_blocks)."
            )
        seq = Sequence(
            self._new_id(seq_id), token_ids, len(token_ids), params or SamplingParams(),
            prefill_chunk=checked_chunk(prefill_chunk))  # fmt: skip
        self.sequences[seq.seq_id] = seq
        self.scheduler.add(seq)
        return seq

    def abort(self, seq: Sequence) -> None:
        """End a sequence at once, whatever it is doing, and free its blocks. A parked step it takes part in is
        abandoned; the others in that step lose nothing."""
        if seq.finished:
            return
        for state in [state for state in self.open_states if any(entry.seq is seq for entry in state.scheduled)]:
            self.abandon(state)
        self.scheduler.remove(seq)
        seq.finish("abort")
        self._free(seq)

    def release(self, seq: Sequence) -> None:
        """Forget a sequence and free its blocks; one that is not finished is aborted first.

        Its tokens stay readable, and it can still be forked: what it had computed is then computed anew.
        """
        self.abort(seq)
        self._free(seq)
        if self.sequences.get(seq.seq_id) is seq:
            del self.sequences[seq.seq_id]
            self.block_copies = [made for made in self.block_copies if made.seq_id != seq.seq_id]

    # --- steps ---

    @property
    def has_unfinished(self) -> bool:
        return self.scheduler.has_unfinished

    def step(self, observer: Observer | None = None, *, only: Sequence | None = None) -> StepState | None:
        """Run one step from schedule to commit; None if there is nothing to do. `only` steps this sequence alone.

        If anything in it fails, the observer included, no sequence has changed and the error is passed on, in words.
        """
        state = self.begin_step(only=only)
        return None if state is None else self.advance(state, observer=observer)

    def begin_step(self, *, only: Sequence | None = None) -> StepState | None:
        """A step of which no stage has run yet, for `advance`. None if there is nothing to do."""
        if not self.has_unfinished or (only is not None and only.finished):
            return None
        state = StepState(only=only)
        self.open_states.append(state)
        return state

    @torch.inference_mode()
    def advance(self, state: StepState, *, until: int | None = None, observer: Observer | None = None) -> StepState:
        """Run the stages from state.pc up to (without) index `until` of the program, by default to the end.

        Between two calls the step is parked. It may be left parked while others run, fork or are added.
        """
        if state not in self.open_states:
            raise BadInputError("This step is over: it was committed or abandoned. Begin another one.")
        stop = len(self.program) if until is None else until
        if not state.pc <= stop <= len(self.program):
            raise BadInputError(f"A step at stage {state.pc} of {len(self.program)} cannot advance to stage {until}.")
        try:
            run_stages(self.program, self, state, stop, observer)
        except BaseException as error:
            self.abandon(state)
            raise_in_words(error)
        if state.pc == len(self.program):
            self.open_states.remove(state)
        return state

    def abandon(self, state: StepState) -> None:
        """Drop a parked step: its sequences, the queues and the blocks are again as they were before it began.

        What stays: a private copy of a block that was shared, which holds the same positions; and a preemption, for
        others may have written into those blocks.
        """
        self.open_states.remove(state)
        if state.pc < len(self.program):  # else `commit` has run, and the step counts
            self.scheduler.undo(state.scheduled, state.admitted)

    def parked_sequences(self) -> frozenset[Sequence]:
        """Those that take part in a step which is neither committed nor abandoned."""
        return frozenset(entry.seq for state in self.open_states for entry in state.scheduled)

    def finish_reason(self, seq: Sequence, new_ids: SequenceOf[int] = ()) -> str | None:
        """Why the sequence would end if these tokens joined it, or None."""
        model, output_ids = self.model, [*seq.output_ids, *new_ids]
        total = seq.num_tokens + len(new_ids)
        return finish_reason(output_ids, total, seq.params, model.stop_ids, model.token_bytes, self.context_length)

    # --- forks ---

    def fork(
        self,
        seq: Sequence,
        length: int,
        *,
        force: int | None = None,
        params: SamplingParams | None = None,
        seq_id: str | None = None,
        computed: int | None = None,
    ) -> Sequence:
        """A new sequence that begins with the first `length` tokens of this one and goes its own way from there.

        It shares the blocks of what is computed already; one that it writes into is copied first. `force` puts a token
        of your choice in the next place (the coin of that place is passed over). Going back is a fork too: the token
        at `length` is then sampled again. At least the newest token is left to compute, for its logits;
        `computed`: all positions from there on, so that their step can run anew.
        """
        most = min(seq.num_tokens, self.context_length)
        if not 1 <= length <= most:
            raise BadInputError(f"A fork of {seq.seq_id!r} keeps 1 to {most} of its tokens, not {length!r}.")
        if seq.block_table and self.sequences.get(seq.seq_id) is not seq:
            raise BadInputError(f"Sequence {seq.seq_id!r} belongs to another engine: fork it there.")
        token_ids = seq.token_ids[:length]
        num_prompt_tokens = min(seq.num_prompt_tokens, length)
        forced = {index: token_id for index, token_id in seq.forced.items() if index < length - num_prompt_tokens}
        if force is not None:
            forced[length - num_prompt_tokens] = checked_id(force, self.model_config.vocab_size)
            token_ids.append(checked_id(force, self.model_config.vocab_size))
        computed = min(seq.num_computed_tokens, length if computed is None else computed, length, len(token_ids) - 1)
        branch = Sequence(
            seq_id=self._new_id(seq_id),
            token_ids=token_ids,
            num_prompt_tokens=num_prompt_tokens,
            params=params or seq.params,
            num_computed_tokens=computed,
            block_table=seq.block_table[: -(-computed // self.config.block_size)],
            forced=forced,
            prefill_chunk=seq.prefill_chunk,
        )
        self.pool.share(branch.block_table)
        self.sequences[branch.seq_id] = branch
        reason = self.finish_reason(branch) if branch.num_output_tokens else None
        if reason is None:
            self.scheduler.add(branch)
        else:
            branch.finish(reason)
        return branch

    def fork_state(self, state: StepState) -> StepState:
        """A copy of a parked step that goes its own way: its sequences are twins, and `advance` takes it on."""
        if state not in self.open_states:
            raise BadInputError("This step is over: it was committed or abandoned. Fork its sequences instead.")
        branch = copy.copy(state)
        branch.scheduled = tuple(entry._replace(seq=self._twin(entry.seq)) for entry in state.scheduled)
        branch.admitted = ()
        self.open_states.append(branch)
        return branch

    def _twin(self, seq: Sequence) -> Sequence:
        twin = dataclasses.replace(
            seq,
            seq_id=self._new_id(None),
            token_ids=list(seq.token_ids), block_table=list(seq.block_table),
            forced=dict(seq.forced), block_hashes=list(seq.block_hashes),
        )
        self.pool.share(twin.block_table)
        self.sequences[twin.seq_id] = twin
        self.scheduler.running.append(twin)
        return twin

    # --- memory ---

    def used_bytes(self, seq: Sequence | None = None) -> int:
        """Bytes of the KV cache that hold computed positions: of a sequence, or of all, shared positions once."""
        if seq is not None:
            return seq.num_computed_tokens * self.kv_cache.position_bytes
        return used_positions(self.sequences.values(), self.config.block_size) * self.kv_cache.position_bytes

    def allocated_bytes(self, seq: Sequence | None = None) -> int:
        """Bytes of the blocks held by a sequence, or of all used blocks."""
        num_blocks = self.pool.num_used if seq is None else len(seq.block_table)
        return num_blocks * self.kv_cache.block_bytes

    def reserved_bytes(self) -> int:
        """Bytes of the pool's storage, used or free."""
        return self.kv_cache.storage_bytes

    def check(self) -> None:
        """Raise AssertionError if the books do not balance: blocks, reference counts, tables, queues."""
        check_books(self.sequences.values(), self.scheduler, self.parked_sequences())

    @property
    def kv_itemsize(self) -> int:
        """Bytes of one number in the KV cache."""
        return self.kv_cache.data.itemsize

    # --- small things ---

    def _free(self, seq: Sequence) -> None:
        self.pool.release(seq.block_table)
        seq.block_table = []
        seq.num_computed_tokens = 0

    def _new_id(self, seq_id: str | None) -> str:
        if seq_id is None:
            return next(name for n in self._numbers if (name := f"seq-{n}") not in self.sequences)
        if seq_id in self.sequences:
            raise BadInputError(f"There is a sequence {seq_id!r} already: choose another id, or release it first.")
        return seq_id
