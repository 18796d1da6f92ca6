"""A run read from a file: the same questions as a live run, answered from arrays. Needs numpy only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from miniinfer.errors import BadInputError
from miniinfer.trace.records import ByteArray, FloatArray, NextToken, PooledMaps, StepMeta, TokenInfo
from miniinfer.trace.run import RunInfo


@dataclass(frozen=True)
class RecordedRun:
    """pattern: for each position i [L, H, i + 1] u8 (round(255 sqrt p)); next_tokens: one per position in the cache."""

    info: RunInfo
    finish_reason: str | None
    steps: list[StepMeta]
    tokens: list[TokenInfo]
    next_tokens: list[NextToken]
    pattern: list[ByteArray]
    norms: FloatArray
    probs: FloatArray

    def next_token(self, step: int) -> NextToken | None:
        meta = self.steps[step - 1]
        return self.next_at(meta.context_len - 1) if meta.token_id is not None else None

    def next_at(self, position: int) -> NextToken:
        self._check(position)
        return self.next_tokens[position]

    def rows_at(self, position: int) -> ByteArray:
        self._check(position)
        return self.pattern[position]

    def head_rows(self, layer: int, head: int, start: int, stop: int) -> ByteArray:
        stop = min(stop, len(self.pattern))
        rows = [self.pattern[i][layer, head] for i in range(start, stop)]
        return np.concatenate(rows) if rows else np.empty(0, np.uint8)

    def head_map(self, layer: int, head: int, cell: int) -> ByteArray:
        from miniinfer.trace.pooling import pool_head

        return pool_head(([row[layer, head]] for row in self.pattern), len(self.pattern), cell)

    def exact_row(self, layer: int, head: int, position: int) -> None:
        self._check(position)

    def pooled_maps(self, step: int) -> PooledMaps | None:
        from miniinfer.trace.pooling import pool_rows

        meta = self.steps[step - 1]
        prompt = self.info.num_prompt_tokens
        if meta.phase != "prefill" or meta.context_len < prompt:
            return None
        return pool_rows(self.pattern[:prompt], prompt)

    def kv_norms(self, start: int) -> FloatArray:
        return self.norms[start:]

    def token_probs(self, start: int) -> FloatArray:
        return self.probs[start:]

    def _check(self, position: int) -> None:
        if not 0 <= position < len(self.pattern):
            raise BadInputError(f"Position {position} is not in the cache of this run; it holds {len(self.pattern)}.")
