"""What is kept of a run: frozen records of plain Python and numpy, readable without torch. Shape letters: config.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
ByteArray = NDArray[np.uint8]
Phase = Literal["prefill", "decode"]


@dataclass(frozen=True)
class TokenInfo:
    """A token as a thing that can be shown: `text` has whole characters, or the bytes of a split one as <F0><9F>."""

    token_id: int
    text: str
    data: bytes
    control: bool = False
    partial: bool = False


@dataclass(frozen=True)
class NextToken:
    """The distribution over the next token at one position: its best candidates, and the rest as one number each.

    Candidates stand in the order of falling used, then raw probability; the cumulative bar runs in that order.
    `cut_by` names the logits processor that removed a candidate, None where it stayed. `lo`, `hi` bound the drawn
    token's part of the cumulative bar. Probabilities are computed in float32, entropies in nats.
    """

    tokens: tuple[TokenInfo, ...]
    raw_probs: tuple[float, ...]
    used_probs: tuple[float, ...]
    cut_by: tuple[str | None, ...]
    num_kept: int
    rest_count: int
    rest_raw: float
    rest_used: float
    entropy_raw: float
    entropy_used: float
    temperature: float
    greedy: bool
    coin: float | None = None
    lo: float | None = None
    hi: float | None = None
    token_id: int | None = None
    forced: bool = False


@dataclass(frozen=True)
class PooledMaps:
    """All attention maps of a prompt, max-pooled: maps [L, H, B, B] u8 (round(255 sqrt p)), `cell` positions a cell."""

    maps: ByteArray
    cell: int


@dataclass(frozen=True)
class SequenceRecord:
    """One sequence's part of a step.

    start, num_scheduled: positions start .. start + num_scheduled - 1 went through the model.
    context_len: positions in the cache after the step. token_id: the sampled or forced token, None while a prefill is
    unfinished; it stands at position context_len and is not in the cache yet.
    q [L, n, H, D] after RoPE, or None when the byte budget made the recorder drop it; final_norm [n, E];
    kv_norms [n, L, 2]: L2 norms of K and V; pooled: the prompt's attention maps, see `recorder`.
    """

    seq_id: str
    start: int
    num_scheduled: int
    context_len: int
    token_id: int | None
    logprob: float | None
    coin: float | None
    forced: bool
    final_norm: FloatArray
    kv_norms: FloatArray
    q: FloatArray | None = None
    pooled: PooledMaps | None = None

    @property
    def arrays(self) -> list[FloatArray | ByteArray]:
        """All that takes room."""
        found = [self.final_norm, self.kv_norms, self.q, self.pooled.maps if self.pooled else None]
        return [a for a in found if a is not None]

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in self.arrays)


@dataclass(frozen=True)
class StepRecord:
    """One engine step as it was measured and computed. Bytes are bytes, times milliseconds.

    recording_ms: what the recorder took between the stages and behind them, in no stage and not in step_ms; None where
    it was not kept.
    """

    step: int
    phase: Phase
    step_ms: float
    stage_ms: dict[str, float]
    sequences: tuple[SequenceRecord, ...]
    weight_bytes_read: int
    kv_bytes_read: int
    kv_used_bytes: int
    kv_allocated_bytes: int
    kv_reserved_bytes: int
    notes: tuple[str, ...] = field(default=())
    recording_ms: float | None = None

    @property
    def nbytes(self) -> int:
        return sum(s.nbytes for s in self.sequences)


@dataclass(frozen=True)
class StepMeta:
    """A step of one run without its arrays: what the transport, the step panel and a trace file's index hold."""

    step: int
    phase: Phase
    num_scheduled: int
    context_len: int
    step_ms: float
    stage_ms: dict[str, float]
    token_id: int | None
    forced: bool
    logprob: float | None
    coin: float | None
    kv_used_bytes: int
    kv_allocated_bytes: int
    kv_reserved_bytes: int
    weight_bytes_read: int
    kv_bytes_read: int
    recording_ms: float | None = None

    @classmethod
    def of(cls, record: StepRecord, seq_id: str) -> StepMeta:
        part = next(s for s in record.sequences if s.seq_id == seq_id)
        return cls(
            record.step, record.phase, part.num_scheduled, part.context_len, record.step_ms, record.stage_ms,
            part.token_id, part.forced, part.logprob, part.coin, record.kv_used_bytes, record.kv_allocated_bytes,
            record.kv_reserved_bytes, record.weight_bytes_read, record.kv_bytes_read, record.recording_ms,
        )
