"""A run read from a file: the same questions as a live run, answered from arrays. Needs numpy only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from miniinfer.config import SamplingParams
from miniinfer.errors import BadInputError
from miniinfer.trace.pooling import pool_head, pool_rows
from miniinfer.trace.records import ByteArray, FloatArray, NextToken, PooledMaps, StepMeta, TokenInfo
from miniinfer.trace.run import RunInfo


@dataclass(frozen=True)
class Origin:
    """Where a recording comes from. by: program and version; at: ISO 8601 in UTC, "" if nobody said; kind: of the run
    that was recorded; measured: so many first steps were measured before that run had been saved and came back."""

    by: str = ""
    at: str = ""
    kind: str = "live"
    measured: int = 0


@dataclass(frozen=True)
class RecordedRun:
    """pattern: for each position i [L, H, i + 1] u8 (round(255 sqrt p)), or None where a long run kept no rows.
    head_pattern: then the rows of `head` (layer, head), row i with i + 1 entries, and maps: the prompt's pooled maps.
    next_tokens: one per position in the cache, None where nothing was kept. norms [C, L, 2]; probs: one per token that
    is in the cache or chosen last. settings: all that chose a token; step_settings: index into them, one per step; both
    empty where `info.params` chose them all."""

    info: RunInfo
    finish_reason: str | None
    steps: list[StepMeta]
    tokens: list[TokenInfo]
    next_tokens: list[NextToken | None]
    pattern: list[ByteArray | None]
    norms: FloatArray
    probs: FloatArray
    head: tuple[int, int] | None = None
    head_pattern: tuple[ByteArray, ...] = ()
    maps: PooledMaps | None = None
    settings: tuple[SamplingParams, ...] = ()
    step_settings: tuple[int, ...] = ()
    origin: Origin = Origin()

    @property
    def complete(self) -> bool:
        """Every attention row and every distribution is here."""
        return all(row is not None for row in self.pattern) and None not in self.next_tokens

    def next_token(self, step: int) -> NextToken | None:
        meta = self.steps[step - 1]
        return self.next_at(meta.context_len - 1) if meta.token_id is not None else None

    def next_at(self, position: int) -> NextToken:
        self._check(position)
        found = self.next_tokens[position]
        if found is None:
            raise BadInputError(f"This recording does not say what the model expected after position {position}.")
        return found

    def rows_at(self, position: int) -> ByteArray | None:
        self._check(position)
        return self.pattern[position]

    def head_rows(self, layer: int, head: int, start: int, stop: int) -> ByteArray:
        stop = min(stop, len(self.pattern))
        rows = [self._head_row(layer, head, i) for i in range(start, stop)]
        return np.concatenate(rows) if rows else np.empty(0, np.uint8)

    def head_map(self, layer: int, head: int, cell: int) -> ByteArray:
        length = len(self.pattern)
        return pool_head(([self._head_row(layer, head, i)] for i in range(length)), length, cell)

    def _head_row(self, layer: int, head: int, position: int) -> ByteArray:
        rows = self.pattern[position]
        if rows is not None:
            return rows[layer, head]
        if (layer, head) != self.head:
            kept = f"layer {self.head[0]}, head {self.head[1]}" if self.head else "no head"
            raise BadInputError(
                f"This recording is of a long run: it keeps the whole pattern of {kept}, and of the others the newest "
                "row of its steps."
            )
        return self.head_pattern[position]

    def exact_row(self, layer: int, head: int, position: int) -> None:
        self._check(position)

    def pooled_maps(self, step: int) -> PooledMaps | None:
        meta = self.steps[step - 1]
        prompt = self.info.num_prompt_tokens
        if meta.phase != "prefill" or meta.context_len < prompt:
            return None
        rows = [row for row in self.pattern[:prompt] if row is not None]
        return pool_rows(rows, prompt) if len(rows) == prompt else self.maps

    def kv_norms(self, start: int) -> FloatArray:
        return self.norms[start:]

    def token_probs(self, start: int) -> FloatArray:
        return self.probs[start:]

    def _check(self, position: int) -> None:
        if not 0 <= position < len(self.pattern):
            raise BadInputError(f"Position {position} is not in the cache of this run; it holds {len(self.pattern)}.")
