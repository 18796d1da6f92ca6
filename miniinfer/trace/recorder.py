"""An observer that keeps what panels need of a step: times, queries, the final-norm vectors, norms of K and V.

It never holds attention maps (layers x heads x T x T): kept queries and the cache give any row back when somebody
looks, and the final-norm vector gives the logits back. Arrays are copied to read-only numpy within a byte budget.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from miniinfer.trace.pooling import PooledPrompt, cell_size
from miniinfer.trace.records import FloatArray, PooledMaps, SequenceRecord, StepRecord

if TYPE_CHECKING:
    import torch

    from miniinfer.engine.clock import Mark
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.sampler import SamplerTrace
    from miniinfer.engine.sequence import Sequence
    from miniinfer.engine.stage import Stage
    from miniinfer.engine.state import StepState


# Something is kept behind these stages, and behind each logits processor.
WATCHED = frozenset(("schedule", "write_kv", "attn_pattern", "sample"))
FEW_ROWS = 8  # whose queries are copied in one piece; those of a prompt layer by layer, or they would be copied twice


@dataclass(frozen=True)
class NewestRow:
    """What a panel looks at right after a step, as the step itself saw it: of the first sequence's newest position.

    rows: [L, H, C]; logits: [R, V], R = 0 if that step sampled nothing; processed: the same after each processor;
    probs: [R, V]; coins: R. Older ones are computed when looked at.
    """

    position: int
    rows: torch.Tensor
    logits: torch.Tensor
    processed: list[torch.Tensor]
    probs: torch.Tensor
    coins: tuple[float, ...]

    def sampler_trace(self, names: SequenceOf[str]) -> SamplerTrace:
        """How the step chose, from what its stages left. names: of the processors in their order."""
        from miniinfer.engine.sampler import trace_of

        rows, before, row = [], self.logits, self.logits[0]
        for after in self.processed[: len(names)]:
            if after is not before:
                before, row = after, after[0]
            rows.append(row)
        return trace_of(self.logits[0], names, rows, self.probs[0], self.coins[0])


class _Copies(NamedTuple):
    """Of one step: q [L, T, H, D], norms [T, L, 2], final [T, E], the maps of prompts that it completes, by id, and the
    newest row of every layer [L, H, C], on the device."""

    q: FloatArray
    norms: FloatArray
    final: FloatArray
    pooled: dict[str, PooledMaps]
    newest: torch.Tensor


class Recorder:
    """Watches steps of one engine. `record()` gives the last committed step."""

    def __init__(self, engine: Engine) -> None:
        from miniinfer.engine.clock import DeviceClock

        self._engine = engine
        self._clock = DeviceClock(engine.device, waits=False)
        self._prompts: dict[str, PooledPrompt] = {}
        self.newest: NewestRow | None = None
        self._begin()

    def _begin(self) -> None:
        self._marks: list[tuple[str, Mark, Mark]] = []  # read after the step: on a GPU no stage waits for another
        self._q: list[torch.Tensor] = []
        self._k: list[torch.Tensor] = []
        self._v: list[torch.Tensor] = []
        self._rows: list[torch.Tensor] = []
        self._processed: list[torch.Tensor] = []
        self._plan: list[tuple[Sequence, int, int]] = []
        self._parked: list[tuple[Mark, Mark]] = []
        self._copies: _Copies | None = None
        self._start = self._mark = self._clock.mark()

    def start(self) -> None:
        """Call right before a step: forgets an unfinished one and starts the clock."""
        self._begin()

    def resume(self) -> None:
        """Call when a parked step goes on: what others did meanwhile is no part of it."""
        now = self._clock.mark()
        self._parked.append((self._mark, now))
        self._mark = now

    def __call__(self, stage: Stage, state: StepState) -> None:
        name = stage.name
        now = self._clock.mark()
        self._marks.append((name, self._mark, now))
        if name not in WATCHED and stage.processor is None:
            self._mark = now
            return
        if name == "write_kv":
            # References, not copies: these tensors stay as they are until the step ends, and no longer where a backend
            # uses memory again (engine/graph/).
            self._q.append(state.q)
            self._k.append(state.k)
            self._v.append(state.v)
        elif name == "schedule":
            self._plan = [(s.seq, s.num_tokens, s.start) for s in state.scheduled]
        elif name == "attn_pattern" and stage.layer is not None:
            self._pool_prompts(stage.layer, state)
            self._rows.append(_newest_row(state))
        elif stage.processor is not None:
            self._processed.append(state.logits)
        elif name == "sample":
            # Before the step is committed: if there is no memory for the copies, there is no step either.
            self._copies = self._copy(state)
        self._mark = self._clock.mark()  # the recorder's own time belongs to no stage

    def _pool_prompts(self, layer: int, state: StepState) -> None:
        from miniinfer.engine.lookup import pattern_rows

        config = self._engine.model_config
        for index, (seq, count, start) in enumerate(self._plan):
            if start >= seq.num_prompt_tokens:
                continue
            if seq.seq_id not in self._prompts:
                self._prompts[seq.seq_id] = PooledPrompt(config.num_layers, config.num_heads, seq.num_prompt_tokens)
            rows = pattern_rows(state, index)  # [H, n, C]
            assert rows.shape[1] == count
            prompt = seq.num_prompt_tokens
            rows = rows[:, : prompt - start, :prompt]  # what is computed anew may go on into the output
            pooled = self._engine.backend.largest_in_cells(rows, start, cell_size(prompt))
            self._prompts[seq.seq_id].add(layer, start, pooled.numpy())

    def _copy(self, state: StepState) -> _Copies:
        import torch

        pooled = {seq.seq_id: maps for seq, count, start in self._plan if (maps := self._pooled(seq, start, count))}
        norms = _frozen(_norms(self._k, self._v).cpu().contiguous())
        return _Copies(_stacked(self._q), norms, _numpy(state.final_norm_out), pooled, torch.stack(self._rows))

    def record(self, step: int, state: StepState) -> StepRecord:
        """The step that was just committed, as the run's `step`-th."""
        import torch

        engine = self._engine
        q, norms, final, pooled, newest = self._copies or self._copy(state)
        self._copies, self._rows = None, []
        for seq_id in pooled:
            del self._prompts[seq_id]
        self.newest = NewestRow(
            self._plan[0][2] + self._plan[0][1] - 1, newest, state.raw_logits, self._processed, state.probs,
            state.coins,
        )
        row_of = {row: r for r, row in enumerate(state.sample_rows)}
        parts, offset = [], 0
        for seq, count, start in self._plan:
            rows = slice(offset, offset + count)
            offset += count
            sampled = row_of.get(offset - 1)
            token_id = logprob = coin = None
            if sampled is not None and seq.error is None:
                token_id, coin = int(state.token_ids[sampled]), float(state.coins[sampled])
                logprob = float(torch.log(state.probs[sampled, token_id]))
            parts.append(
                SequenceRecord(
                    seq.seq_id, start, count, start + count, token_id, logprob, coin, False, final[rows], norms[rows],
                    q[:, rows], pooled.get(seq.seq_id),
                )
            )
        stage_ms: defaultdict[str, float] = defaultdict(float)
        for name, begin, end in self._marks:
            stage_ms[name] += self._clock.ms(begin, end)
        step_ms = sum(stage_ms.values())
        there_ms = self._clock.ms(self._start, self._clock.mark()) - sum(self._clock.ms(*m) for m in self._parked)
        kv_token = engine.kv_cache.position_bytes
        weights = engine.weights  # as they are read here: see native/products.py
        skipped = 0 if state.sample_rows else weights.unembed.nbytes
        return StepRecord(
            step,
            "prefill" if any(start < seq.num_prompt_tokens for seq, _, start in self._plan) else "decode",
            step_ms,
            dict(stage_ms),
            tuple(parts),
            weight_bytes_read=weights.nbytes - skipped,
            kv_bytes_read=sum(p.context_len for p in parts) * kv_token,
            kv_used_bytes=sum(engine.used_bytes(seq) for seq, _, _ in self._plan),
            kv_allocated_bytes=sum(engine.allocated_bytes(seq) for seq, _, _ in self._plan),
            kv_reserved_bytes=engine.reserved_bytes(),
            recording_ms=max(0.0, there_ms - step_ms),
        )

    def _pooled(self, seq: Sequence, start: int, count: int) -> PooledMaps | None:
        """Maps go with the step that completes the prompt; later steps have rows of their own."""
        if not start < seq.num_prompt_tokens <= start + count or seq.seq_id not in self._prompts:
            return None
        return self._prompts[seq.seq_id].result()


def _newest_row(state: StepState) -> torch.Tensor:
    """Of the first sequence: [H, C]."""
    from miniinfer.engine.lookup import pattern_row

    first = state.attn_pattern[0]
    if first.shape[1] == first.shape[3] == 1:  # one row of one sequence: that is all of it
        return first.view(-1, first.shape[4])
    return pattern_row(state, 0).clone()  # a view would hold the whole pattern of a prefill


def _norms(k: list[torch.Tensor], v: list[torch.Tensor]) -> torch.Tensor:
    """k, v: L times [T, K, D] -> [T, L, 2]: L2 norms over all key/value heads, float32."""
    import torch

    # Few operations, because each of torch's may wait for a thread of its own.
    norms = (torch.linalg.vector_norm(torch.stack(kind), dim=(2, 3), dtype=torch.float32) for kind in (k, v))  # [L, T]
    return torch.stack(tuple(norms), -1).transpose(0, 1)


def _stacked(tensors: list[torch.Tensor]) -> FloatArray:
    """Copies, below each other. numpy asks the system for large pages; for 35 MB of queries that is half the time."""
    import torch

    first = tensors[0]
    if len(first) <= FEW_ROWS or first.device.type != "cpu":  # from a device in one transfer, not one a layer
        return _frozen(torch.stack(tensors).float().cpu())
    array = np.empty((len(tensors), *first.shape), np.float32)
    for row, tensor in zip(torch.from_numpy(array), tensors, strict=True):
        row.copy_(tensor)  # widens bfloat16 on the way
    array.setflags(write=False)
    return array


def _frozen(tensor: torch.Tensor) -> FloatArray:
    """A tensor that nobody else holds, as it is."""
    array: FloatArray = tensor.numpy()
    array.setflags(write=False)
    return array


def _numpy(tensor: torch.Tensor) -> FloatArray:
    """A copy."""
    return _frozen(tensor.float().cpu().clone())
