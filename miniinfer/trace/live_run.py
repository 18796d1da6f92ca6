"""A run with an engine behind it. Its methods touch tensors, so they are called in the engine's thread.

Looking back never runs the model: attention rows are recomputed from kept queries and cached keys, logits from kept
final-norm vectors.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from miniinfer.errors import BadInputError
from miniinfer.trace.attention.heads import far_reading_head
from miniinfer.trace.budget import TraceBudget
from miniinfer.trace.parts import Parts, finished
from miniinfer.trace.pooling import pool_head, to_u8
from miniinfer.trace.recorded_step import recorded_step
from miniinfer.trace.recorder import Recorder
from miniinfer.trace.records import (
    ByteArray,
    FloatArray,
    NextToken,
    PooledMaps,
    SequenceRecord,
    StepMeta,
    StepRecord,
    TokenInfo,
)
from miniinfer.trace.run import ChangeParams, Edit, ForceToken, RunInfo
from miniinfer.trace.sampling.candidates import next_token_of
from miniinfer.trace.sleep import SleepingRun

if TYPE_CHECKING:
    import torch

    from miniinfer.config import SamplingParams
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.sequence import Sequence

DescribeToken = Callable[[int], TokenInfo]
HEAD_BLOCK = 256  # rows of attention recomputed at a time


class LiveRun(SleepingRun):
    """One sequence of an engine with all its step records. Branches share the records of their common steps."""

    def __init__(
        self, engine: Engine, seq: Sequence, info: RunInfo, describe: DescribeToken, budget: TraceBudget,
        records: list[StepRecord] | None = None, step_params: list[SamplingParams] | None = None,
    ) -> None:
        self.info = info
        self.engine = engine
        self.seq = seq
        self.records = list(records or ())
        self._step_params = list(step_params or ())  # with which each step chose: a branch may have changed them
        self.describe = describe
        self._budget = budget
        self._recorder = Recorder(engine)
        self._next: dict[int, NextToken] = {}
        self._steps: list[StepMeta] = []
        self._tokens: list[TokenInfo] = []
        self.released = False

    @property
    def finish_reason(self) -> str | None:
        return self.seq.finish_reason

    @property
    def steps(self) -> list[StepMeta]:
        known = self._steps  # replaced, never changed: two threads may ask at once
        if new := self._records[len(known) :]:
            self._steps = known = [*known, *(StepMeta.of(record, self._part(record).seq_id) for record in new)]
        return known

    @property
    def tokens(self) -> list[TokenInfo]:
        known = self._tokens
        if new := self.seq.token_ids[len(known) :]:
            self._tokens = known = [*known, *map(self.describe, new)]
        return known

    def step(self) -> bool:
        """Run one engine step of this sequence alone. False if the run is finished."""
        return finished(self.step_in_parts())

    def step_in_parts(self) -> Parts[bool]:
        """The same step: with many tokens it stops before each layer, so that other runs' steps come in between."""
        if self.seq.finish_reason is not None:
            return False
        state = yield from recorded_step(self.engine, self.seq, self._recorder)
        if state is None:
            return False
        record = self._recorder.record(len(self.records) + 1, state)
        self.records.append(record)
        self._step_params.append(self.info.params)
        self._budget.add(record)
        if self.info.default_head is None and record.sequences[0].token_id is not None:
            self.info = dataclasses.replace(self.info, default_head=far_reading_head(self.rows_at(self._last_position)))
        return True

    def fork(self, edit: Edit, run_id: str, name: str) -> LiveRun:
        """A branch from where step `edit.step` chose its token; the trunk stays as it is and the KV prefix is shared.
        After a forced token it goes on with the settings of that step."""
        if not 1 <= edit.step <= len(self.records):
            raise BadInputError(f"A branch starts at a step that has been run: 1 to {len(self.records)}.")
        from miniinfer.engine.sampler import sampler_trace

        record = self.records[edit.step - 1]
        part = self._part(record)
        if part.token_id is None:
            raise BadInputError("This step chose no token: the prompt is still being prefilled.")
        if isinstance(edit, ForceToken) and not 0 <= edit.token_id < self.info.model.vocab_size:
            raise BadInputError(f"Token ids of this model run from 0 to {self.info.model.vocab_size - 1}.")
        params = edit.params if isinstance(edit, ChangeParams) else self._step_params[edit.step - 1]
        # The step's own logits and the coin of its place choose again: the model does not run, and with the same seed
        # this coin and all later ones are the trunk's.
        prompt, ids = self.info.num_prompt_tokens, self.seq.token_ids[: part.context_len]
        trace = sampler_trace(self.logits_at(part.context_len - 1), params, ids[:prompt], ids[prompt:])
        token_id = edit.token_id if isinstance(edit, ForceToken) else trace.token_id
        seq = self.engine.fork(self.seq, part.context_len, force=token_id, params=params, seq_id=run_id)
        changed = dataclasses.replace(
            part, token_id=token_id, forced=isinstance(edit, ForceToken), coin=trace.coin,
            logprob=float(trace.probs[token_id].log()),
        )
        records = [*self.records[: edit.step - 1], dataclasses.replace(record, sequences=(changed,))]
        info = dataclasses.replace(
            self.info, run_id=run_id, name=name, params=params, parent=self.info.run_id, edit=edit,
            resumed=min(self.info.resumed, edit.step),
        )
        self._budget.share(records)
        step_params = [*self._step_params[: edit.step - 1], params]
        return LiveRun(self.engine, seq, info, self.describe, self._budget, records, step_params)

    def params_of(self, step: int) -> SamplingParams:
        """The settings with which this step chose its token; a branch may have changed them later."""
        return self._step_params[step - 1]

    @property
    def step_params(self) -> list[SamplingParams]:
        """Those settings for all steps so far."""
        return list(self._step_params)

    def release(self) -> None:
        """Give back the blocks and the records."""
        self.released = True  # first: who saves runs from another thread must not take an emptied one for it
        self._asleep = None  # a run that sleeps holds nothing
        if self._engine is not None:
            self._engine.release(self.seq)
        self._budget.drop(self._records)
        self._records.clear()
        self._step_params.clear()

    # Looking back

    def next_token(self, step: int) -> NextToken | None:
        part = self._part(self.records[step - 1])
        if part.token_id is None:
            return None
        if step not in self._next:
            self._next[step] = self._next_after(part.context_len - 1, self._step_params[step - 1], part)
        return self._next[step]

    def next_at(self, position: int) -> NextToken:
        sampled = (s for s, record in enumerate(self.records) if self._part(record).context_len == position + 1)
        step = next(sampled, None)
        return self._next_after(position, self.info.params if step is None else self._step_params[step], None)

    def _next_after(self, position: int, params: SamplingParams, chosen: SequenceRecord | None) -> NextToken:
        from miniinfer.engine.sampler import sampler_trace

        newest = self._recorder.newest
        if newest is not None and chosen is not None and (newest.position, newest.coins) == (position, (chosen.coin,)):
            trace = newest.sampler_trace(params.order)
        else:
            prompt, ids = self.info.num_prompt_tokens, self.seq.token_ids[: position + 1]
            coin = chosen.coin if chosen else None
            trace = sampler_trace(self.logits_at(position), params, ids[:prompt], ids[prompt:], coin)
        return next_token_of(
            trace, params.temperature, self.describe,
            chosen=chosen.token_id if chosen else None, forced=chosen.forced if chosen else False,
        )

    def logits_at(self, position: int) -> torch.Tensor:
        """Logits after `position`, [V] float32, from the kept final-norm vector."""
        import torch

        from miniinfer.engine.lookup import logits_of

        newest = self._recorder.newest
        if newest is not None and newest.position == position and len(newest.logits):
            return newest.logits[0]
        return logits_of(self.engine, torch.from_numpy(np.array(self.final_norm_at(position)))[None])[0]

    def final_norm_at(self, position: int) -> FloatArray:
        """[E] what the unembed product took at `position`, as it was kept."""
        record, row = self._find(position)
        return record.final_norm[row]

    def queries_at(self, position: int) -> FloatArray:
        """[L, H, D] the queries of one position, after RoPE. They are no part of the cache; the recorder kept them."""
        record, row = self._find(position)
        return self._queries(record)[:, row]

    def step_of(self, position: int) -> int | None:
        """The step that wrote this position into the cache."""
        parts = enumerate(map(self._part, self.records), 1)
        return next((i for i, part in parts if part.start <= position < part.context_len), None)

    def rows_at(self, position: int) -> ByteArray:
        newest = self._recorder.newest
        if newest is not None and newest.position == position:
            return to_u8(newest.rows.float().cpu().numpy())
        q = self.queries_at(position)[:, None]
        rows = [self._attention(layer, q[layer], position)[:, 0] for layer in range(self.info.model.num_layers)]
        return to_u8(np.stack(rows))

    def head_rows(self, layer: int, head: int, start: int, stop: int) -> ByteArray:
        rows = [row for block in self._head_blocks(layer, head, start, stop) for row in block]
        return np.concatenate([row[: start + i + 1] for i, row in enumerate(rows)] or [np.empty(0, np.uint8)])

    def head_map(self, layer: int, head: int, cell: int) -> ByteArray:
        length = self.seq.num_computed_tokens
        return pool_head(self._head_blocks(layer, head, 0, length), length, cell)

    def _head_blocks(self, layer: int, head: int, start: int, stop: int) -> Iterator[ByteArray]:
        """Rows start .. stop - 1 of one head in blocks [n, C] u8: at 2,000 positions all heads at once are 144 MB."""
        stop = min(stop, self.seq.num_computed_tokens)
        for low in range(start, stop, HEAD_BLOCK):
            high = min(low + HEAD_BLOCK, stop)
            yield to_u8(self._attention(layer, self.queries(layer, low, high), low)[head])

    def queries(self, layer: int, start: int, stop: int) -> FloatArray:
        """[n, H, D]: the kept queries (after RoPE) of positions start .. stop - 1. Raises BadInputError if dropped."""
        return np.concatenate([
            self._queries(part)[layer][max(start - part.start, 0) : stop - part.start]
            for part in (self._part(record) for record in self.records)
            if part.start < stop and part.context_len > start
        ])

    def exact_row(self, layer: int, head: int, position: int) -> FloatArray:
        return self.weights_at(layer, position)[head]

    def weights_at(self, layer: int, position: int) -> FloatArray:
        """[H, position + 1] float32: one layer's attention rows of one position, exact."""
        newest = self._recorder.newest
        if newest is not None and newest.position == position:
            return np.array(newest.rows[layer].float().cpu().numpy())
        return self._attention(layer, self.queries_at(position)[layer, None], position)[:, 0]

    def pooled_maps(self, step: int) -> PooledMaps | None:
        return self._part(self.records[step - 1]).pooled

    def kv_norms(self, start: int) -> FloatArray:
        # From the end: what is asked for is mostly the newest position of many.
        newest = itertools.takewhile(lambda p: p.context_len > start, map(self._part, reversed(self.records)))
        arrays = [p.kv_norms[max(start - p.start, 0) :] for p in newest]
        return np.concatenate(arrays[::-1]) if arrays else np.empty((0, self.info.model.num_layers, 2), np.float32)

    def token_probs(self, start: int) -> FloatArray:
        from miniinfer.trace.token_probs import token_probs

        ids = self.seq.token_ids[: self.seq.num_computed_tokens + 1]
        return token_probs(self.engine, map(self._part, self.records), ids, start)

    @property
    def _last_position(self) -> int:
        return self.seq.num_computed_tokens - 1

    def _attention(self, layer: int, q: FloatArray, start: int) -> FloatArray:
        """q [n, H, D] of positions start.. -> [H, n, C]."""
        import torch

        from miniinfer.engine.lookup import attention_rows

        return attention_rows(self.engine, self.seq, layer, torch.from_numpy(np.array(q)), start).float().cpu().numpy()

    def _queries(self, part: SequenceRecord) -> FloatArray:
        if part.q is None:
            raise BadInputError(
                f"The queries of positions {part.start} to {part.context_len - 1} were dropped to stay within this "
                f"session's trace budget of {self._budget.limit_bytes // 2**20} MB; start the run again to see them."
            )
        return part.q

    def _find(self, position: int) -> tuple[SequenceRecord, int]:
        for record in reversed(self.records):
            part = self._part(record)
            if part.start <= position < part.context_len:
                return part, position - part.start
        raise BadInputError(f"Position {position} is not in the cache yet.")

    def _part(self, record: StepRecord) -> SequenceRecord:
        return record.sequences[0]  # a live run steps alone


__all__ = ["ChangeParams", "DescribeToken", "ForceToken", "LiveRun"]
