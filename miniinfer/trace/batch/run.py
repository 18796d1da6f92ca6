"""Many requests through one engine, one step at a time, with a record of each step.

Its methods touch tensors, so they are called in the engine's thread. Going back is looking at an earlier record; a step
that was run is never run again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from miniinfer.errors import BadInputError, MiniInferError, OutOfBlocksError
from miniinfer.trace.batch.records import BatchStep, BatchTrace, BlockGrid, LaneState
from miniinfer.trace.batch.settings import BatchRequest, BatchSettings, check_requests
from miniinfer.trace.parts import Parts, finished
from miniinfer.trace.records import TokenInfo

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.state import StepState
    from miniinfer.engine.weights import ModelLike

Encode = Callable[[BatchRequest], Sequence[int]]
MOST_AT_ONCE = 4096  # blocks by which a pool begins or grows, however many it may come to have
MAX_GROWTHS = 8  # a pool without a size grows to what the requests can need in so many pieces at most


class BatchRun:
    """`step()` until it says False, `trace` for what happened, `abort(request_id)` in between, `release()` at the end.

    encode: the ids of a request's prompt; a MiniInferError that it raises refuses this request, and the others go on.
    Raises BadInputError for an empty list and for equal ids.
    """

    def __init__(
        self,
        model: ModelLike,
        requests: Sequence[BatchRequest],
        settings: BatchSettings | None = None,
        *,
        encode: Encode,
        describe: Callable[[int], TokenInfo],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        from miniinfer.engine.engine import Engine
        from miniinfer.engine.requests import checked_prompt

        check_requests(requests)
        self.model = model
        self.requests = tuple(requests)
        self.settings = settings or BatchSettings()
        self.describe = describe
        self.prompt_ids: dict[str, list[int]] = {}
        self.refused: dict[str, str] = {}
        self.aborted: dict[str, int] = {}  # after which step
        self.steps: list[BatchStep] = []
        self._clock = clock
        context = model.config.context_length
        for request in self.requests:
            try:
                self.prompt_ids[request.request_id] = checked_prompt(encode(request), model.config.vocab_size, context)
            except MiniInferError as error:
                self.refused[request.request_id] = f"Request {request.request_id!r} cannot run. {error}"
        self.num_blocks = self.settings.num_blocks or self._enough_blocks()
        for request in self.requests:
            self._refuse_if_too_long(request)
        chunk = self.num_blocks if self.settings.num_blocks else max(16, -(-self.num_blocks // MAX_GROWTHS))
        chunk = min(chunk, MOST_AT_ONCE)
        self.engine: Engine = Engine(model, self.settings.engine_config(self.num_blocks, chunk))
        self._pending = [r for r in self.requests if r.request_id not in self.refused]
        self._arrived: list[str] = []  # since the newest step that could be recorded
        self._most_computed: dict[str, int] = {}
        self._trace: BatchTrace | None = None
        self._tokens = {name: tuple(map(describe, ids)) for name, ids in self.prompt_ids.items()}

    @property
    def finished(self) -> bool:
        return not self._pending and not self.engine.has_unfinished

    @property
    def trace(self) -> BatchTrace:
        """What has happened so far; it stays as it is when the run goes on."""
        if self._trace is None:
            self._trace = BatchTrace(
                model_name=str(getattr(self.model, "name", "")),
                dtype=self.model.weights.precision,
                requests=self.requests,
                settings=self.settings,
                prompt_tokens=self._tokens,
                refused=dict(self.refused),
                aborted=dict(self.aborted),
                num_blocks=self.num_blocks,
                block_bytes=self.engine.kv_cache.block_bytes,
                context_length=self.engine.context_length,
                steps=tuple(self.steps),
                finished=self.finished,
            )
        return self._trace

    def step(self) -> bool:
        """Let the requests come whose time it is, run one engine step and record it. False if all are done."""
        return finished(self.step_in_parts())

    def step_in_parts(self) -> Parts[bool]:
        """The same step: with many tokens it stops before each layer, so that others' steps come in between."""
        from miniinfer.engine.step_parts import advanced_in_parts
        from miniinfer.trace.batch.step import batch_step

        if self.finished:
            return False
        self._let_arrive()
        if not self.engine.has_unfinished:
            self.steps.append(self._idle_step())
            return True
        state = self.engine.begin_step()
        assert state is not None
        step_ms = yield from self._timed(advanced_in_parts(self.engine, state))
        self.steps.append(batch_step(self, state, step_ms, tuple(self._arrived)))
        self._trace = None
        self._arrived.clear()
        for entry in state.scheduled:
            name = entry.seq.seq_id
            self._most_computed[name] = max(self._most_computed.get(name, 0), entry.stop)
        self._release_finished()
        return True

    def _let_arrive(self) -> None:
        for request in [request for request in self._pending if request.arrival <= len(self.steps)]:
            self._pending.remove(request)
            self.engine.add_request(self.prompt_ids[request.request_id], request.params, seq_id=request.request_id)
            self._arrived.append(request.request_id)
        self._trace = None

    def _timed(self, work: Parts[StepState]) -> Parts[float]:
        """The milliseconds that it took, without what others did between its parts."""
        taken = 0.0
        try:
            while True:
                begun, share = self._clock(), next(work, None)
                if share is None and self.engine.device.type != "cpu":
                    import torch

                    torch.accelerator.synchronize()  # a step that samples nothing has not waited for the device
                taken += self._clock() - begun
                if share is None:
                    return 1000 * taken
                yield share
        finally:
            work.close()

    def abort(self, request_id: str) -> None:
        """End a request, whatever it is doing; its blocks are free at once. Nothing happens if it is over already."""
        if request_id not in {request.request_id for request in self.requests}:
            raise BadInputError(f"There is no request {request_id!r} in this run.")
        pending = [request for request in self._pending if request.request_id == request_id]
        seq = self.engine.sequences.get(request_id)
        if pending or (seq is not None and not seq.finished):
            self._pending = [request for request in self._pending if request.request_id != request_id]
            self.aborted[request_id] = len(self.steps)
            self._trace = None
        if seq is not None and not seq.finished:
            self.engine.release(seq)
            self._release_finished()

    def release(self) -> None:
        """Give back all blocks. The records stay readable."""
        self._pending = []
        self._trace = None
        for seq in list(self.engine.sequences.values()):
            self.engine.release(seq)

    def computed_before(self, request_id: str) -> int:
        """Positions of it that were in the cache at some time: computing one of these again is the price of a
        preemption."""
        return self._most_computed.get(request_id, 0)

    def has_arrived(self, request_id: str) -> bool:
        return all(request.request_id != request_id for request in self._pending)

    def _idle_step(self) -> BatchStep:
        states = {
            r.request_id: LaneState.REFUSED
            if r.request_id in self.refused
            else LaneState.FINISHED
            if self.has_arrived(r.request_id)
            else LaneState.PENDING
            for r in self.requests
        }
        return BatchStep(
            step=len(self.steps) + 1, step_ms=0.0, end_ms=self.steps[-1].end_ms if self.steps else 0.0, rows=(),
            states=states, arrived=(), admitted=(), preempted=(), waiting=(), waits_for=None,
            budget=self.settings.token_budget, blocks=self.block_grid(),
            final_norm=np.empty((0, self.model.config.hidden_size), np.float32),
        )  # fmt: skip

    def block_grid(self) -> BlockGrid:
        pool, size = self.engine.pool, self.settings.block_size
        num_blocks = max(pool.num_blocks, min(self.settings.num_blocks or 0, MOST_AT_ONCE))
        owners: list[tuple[str, ...]] = [()] * num_blocks
        filled = [0] * num_blocks
        cached = [block in pool.prefixes for block in range(num_blocks)]
        for seq in sorted(self.engine.sequences.values(), key=lambda seq: seq.arrival):
            for i, block in enumerate(seq.block_table):
                owners[block] += (seq.seq_id,)
                filled[block] = max(filled[block], min(size, max(0, seq.num_computed_tokens - i * size)))
        for block in pool.prefixes.free:
            filled[block] = size
        tables = {seq.seq_id: tuple(seq.block_table) for seq in self.engine.sequences.values() if seq.block_table}
        return BlockGrid(tuple(owners), tuple(filled), tuple(cached), tables)

    def _release_finished(self) -> None:
        """Who is done gives its blocks back: at once, or in a static batch when all of it is done."""
        static = self.settings.batching == "static"
        if static and self.engine.scheduler.running:
            return
        for seq in [seq for seq in self.engine.sequences.values() if seq.finished]:
            self.engine.release(seq)

    def _positions(self, request: BatchRequest) -> int:
        """The most positions that it can come to have in the cache: its last token needs none."""
        num_prompt = len(self.prompt_ids[request.request_id])
        most = max(num_prompt, num_prompt + request.params.max_new_tokens - 1)
        return min(most, self.model.config.context_length)

    def _enough_blocks(self) -> int:
        needs = [
            -(-self._positions(request) // self.settings.block_size)
            for request in self.requests
            if request.request_id in self.prompt_ids
        ]
        together = sorted(needs, reverse=True)[: self.settings.max_seqs]
        if self.settings.batching == "static" and not self.settings.paging:  # every row is as long as the longest
            return max(1, len(together) * max(together, default=0))
        return max(1, sum(together))

    def _refuse_if_too_long(self, request: BatchRequest) -> None:
        if request.request_id in self.refused:
            return
        positions = self._positions(request)
        needed = -(-positions // self.settings.block_size)
        if needed > self.num_blocks:
            error = OutOfBlocksError(
                f"Request {request.request_id!r} cannot run. Its {positions:,} positions can need {needed} blocks, but "
                f"the pool has {self.num_blocks}: shorten its prompt or its output, or allow more blocks."
            )
            self.refused[request.request_id] = str(error)
