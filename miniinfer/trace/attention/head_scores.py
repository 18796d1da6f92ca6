"""What each head of a run does, from the attention rows of that run, or of a fixed text that repeats.

A row never changes once it is in the cache, so each is scored once and kept; a step adds its own row only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from miniinfer.errors import BadInputError
from miniinfer.trace.attention.head_kinds import KINDS, HeadScores, Occurrences, row_scores, scores_of
from miniinfer.trace.attention.one_head import torch_of
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.records import FloatArray
from miniinfer.trace.run import Run

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.stage import Stage
    from miniinfer.engine.state import StepState

BLOCK = 32  # neighbouring rows scored together
MOST_ROWS = 256  # of a run; longer ones are sampled in blocks
PROBE_TOKENS = 40  # of the repeated text, which has twice as many


class HeadScoreBook:
    """The rows of one run that have been scored so far. `scores` is called in the engine's thread for a live run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._rows: dict[int, FloatArray] = {}  # position -> [L, H, kinds]

    def scores(self, length: int) -> HeadScores:
        """From rows among positions 0 .. length - 1: all of them, or blocks of 32 spread evenly if there are many."""
        positions = sampled_positions(length)
        missing = [p for p in positions if p not in self._rows]
        if missing:
            seen = Occurrences([token.token_id for token in self._run.tokens[:length]])
            for start, stop in _stretches(missing):
                self._rows.update(zip(range(start, stop), self._score(start, stop, seen), strict=True))
        return scores_of(np.stack([self._rows[p] for p in positions]))

    def _score(self, start: int, stop: int, seen: Occurrences) -> FloatArray:
        """[n, L, H, kinds] of positions start .. stop - 1."""
        run = self._run
        if not isinstance(run, LiveRun):  # its weights have 8 bits
            recorded = [run.rows_at(p) for p in range(start, stop)]
            if any(row is None for row in recorded):
                raise BadInputError(
                    "This recording is of a long run and kept only some attention rows: too few to name heads by."
                )
            kept = [np.square(row.astype(np.float32) / 255) for row in recorded if row is not None]  # [L, H, p + 1]
            return np.stack([
                np.stack([row_scores(row[:, None], start + n, seen)[0] for row in layers])
                for n, layers in enumerate(kept)
            ])
        from miniinfer.engine.lookup import attention_rows

        found = []
        for layer in range(run.info.model.num_layers):
            q = torch_of(run.queries(layer, start, stop))
            rows = attention_rows(run.engine, run.seq, layer, q, start).float().cpu().numpy()
            found.append(row_scores(rows, start, seen))
        return np.stack(found, axis=1)


def sampled_positions(length: int) -> list[int]:
    """All positions up to `length`, or every 2nd, 4th ... block of 32 of them, so that at most MOST_ROWS stay."""
    stride = 1
    while -(-length // (BLOCK * stride)) * BLOCK > MOST_ROWS:
        stride *= 2
    return [p for p in range(length) if p // BLOCK % stride == 0]


def _stretches(positions: list[int]) -> list[tuple[int, int]]:
    """Rising positions as (start, stop) of neighbours, none longer than BLOCK."""
    found: list[tuple[int, int]] = []
    for p in positions:
        if found and found[-1][1] == p and p - found[-1][0] < BLOCK:
            found[-1] = (found[-1][0], p + 1)
        else:
            found.append((p, p + 1))
    return found


def probe_ids(vocab_size: int, is_control: Callable[[int], bool]) -> list[int]:
    """PROBE_TOKENS ids spread over the vocabulary, twice: a text that no habit of a language explains.

    Raises BadInputError if there are not enough ids that are no control tokens.
    """
    stride = vocab_size // PROBE_TOKENS
    once: list[int] = []
    for k in range(PROBE_TOKENS):
        first = (k * 7 % PROBE_TOKENS) * stride  # 7 steps on each time, so that neighbours in the text are none in ids
        found = next((i for i in range(first + stride // 2, first + stride) if not is_control(i)), None)
        if found is None:
            raise BadInputError("This model's vocabulary is too small for the text that repeats.")
        once.append(found)
    return once * 2


def probe_scores(engine: Engine, token_ids: list[int]) -> HeadScores:
    """The scores on these tokens, run as a throwaway sequence in one step. Called in the engine's thread."""
    from miniinfer.config import SamplingParams
    from miniinfer.engine.lookup import pattern_rows
    from miniinfer.engine.side_engine import side_engine

    seen = Occurrences(token_ids)
    found: list[tuple[int, FloatArray]] = []
    layers: list[FloatArray] = []

    def watch(stage: Stage, state: StepState) -> None:
        nonlocal layers
        if stage.name == "attn_pattern":
            rows = pattern_rows(state, 0).float().cpu().numpy()
            layers.append(row_scores(rows, state.scheduled[0].start, seen))
        elif stage.name == "commit":
            found.append((state.scheduled[0].start, np.stack(layers, axis=1)))
            layers = []

    side = side_engine(engine, engine.program)
    seq = side.add_request(token_ids, SamplingParams(temperature=0, max_new_tokens=0))
    try:
        while not seq.finished:
            side.step(watch, only=seq)
    finally:
        side.release(seq)
    assert len(KINDS) == found[0][1].shape[-1]
    return scores_of(np.concatenate([values for _, values in found]))
