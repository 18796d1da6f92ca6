"""From any run to a recording of it: what a run file holds. Of a long run the attention rows are chosen.

All rows of all heads grow with the square of the length: 34 MB at 500 tokens of SmolLM2, 540 MB at 2,000. Up to
`row_bytes` all are kept. Beyond it: the newest row of each step, the last steps first; every row of the head that the
run shows first; and the prompt's maps, pooled.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from miniinfer.config import SamplingParams
from miniinfer.errors import BadInputError
from miniinfer.trace.files.recorded_run import Origin, RecordedRun
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.records import ByteArray, NextToken, PooledMaps
from miniinfer.trace.run import Run, RunInfo

ROW_BYTES = 24 * 2**20
MOST_PROMPT_ODDS = 256  # positions of a prompt whose distributions are kept: each costs an unembed product

T = TypeVar("T")
Ask = Callable[[Callable[[], T]], T]


@dataclass(frozen=True)
class Recording:
    """A recording that is being made. done, total: positions."""

    done: int
    total: int
    run: RecordedRun | None = None


def record(run: Run, origin: Origin, ask: Ask = lambda job: job(), row_bytes: int = ROW_BYTES) -> Iterator[Recording]:
    """Make the recording, a few positions at a time; the last value has it. ask: runs a job where the run's tensors may
    be touched. A run that is stepped meanwhile is recorded as it stood at the beginning."""
    steps, tokens, info, finish = ask(lambda: (list(run.steps), list(run.tokens), run.info, run.finish_reason))
    length = steps[-1].context_len if steps else 0
    chosen = {m.context_len - 1: m.step for m in steps if m.token_id is not None}
    tokens = tokens[: max(info.num_prompt_tokens, length + (length - 1 in chosen))]
    kept = _chosen_rows(info, [m.context_len - 1 for m in steps], length, row_bytes)
    pattern: list[ByteArray | None] = []
    nexts: list[NextToken | None] = []
    for position in range(length):
        rows, found = ask(lambda at=position: _at(run, at, at in kept, chosen.get(at), length))  # type: ignore[misc]
        pattern.append(rows)
        nexts.append(found)
        yield Recording(position + 1, length)
    norms, probs = ask(lambda: (run.kv_norms(0)[:length], run.token_probs(0)[: min(len(tokens), length + 1)]))
    head, head_pattern = _one_head(run, info, pattern, ask)
    settings, places = ask(lambda: _settings(run, len(steps)))
    prompt_step = next((m.step for m in steps if m.context_len == info.num_prompt_tokens), None)
    maps: PooledMaps | None = None
    if prompt_step is not None and any(rows is None for rows in pattern[: info.num_prompt_tokens]):
        maps = ask(lambda: run.pooled_maps(prompt_step))
    recorded = RecordedRun(
        dataclasses.replace(info, kind="recorded", parent=None, resumed=0),
        finish if len(steps) == len(run.steps) else None, steps, tokens, nexts, pattern,
        np.asarray(norms, np.float32), np.asarray(probs, np.float32), head, head_pattern, maps, settings, places,
        dataclasses.replace(origin, kind=info.kind, measured=info.resumed),
    )
    yield Recording(length, length, recorded)


def recorded_copy(run: Run, origin: Origin | None = None, ask: Ask = lambda job: job(), **options: int) -> RecordedRun:
    """The finished recording of `record`."""
    for made in record(run, origin or Origin(), ask, **options):
        if made.run is not None:
            return made.run
    raise AssertionError("a recording ends with its run")


def _chosen_rows(info: RunInfo, newest: list[int], length: int, row_bytes: int) -> set[int]:
    heads = info.model.num_layers * info.model.num_heads
    if heads * length * (length + 1) // 2 <= row_bytes:
        return set(range(length))
    kept, left = set(), row_bytes
    for position in reversed(newest):
        left -= heads * (position + 1)
        if left < 0:
            break
        kept.add(position)
    return kept


def _at(
    run: Run, position: int, with_rows: bool, step: int | None, length: int
) -> tuple[ByteArray | None, NextToken | None]:
    rows = None
    if with_rows:
        try:
            rows = run.rows_at(position)
        except BadInputError:
            rows = None  # its queries were dropped to stay within the session's budget
    if step is not None:
        return rows, run.next_token(step)
    try:
        return rows, run.next_at(position) if length <= MOST_PROMPT_ODDS else None
    except BadInputError:
        return rows, None  # a recording of a recording that has none


def _one_head(
    run: Run, info: RunInfo, pattern: list[ByteArray | None], ask: Ask
) -> tuple[tuple[int, int] | None, tuple[ByteArray, ...]]:
    """The whole pattern of the head that is shown first, where not all rows are kept anyway."""
    if all(rows is not None for rows in pattern) or info.default_head is None:
        return None, ()
    layer, head = info.default_head
    try:
        flat = ask(lambda: run.head_rows(layer, head, 0, len(pattern)))
    except BadInputError:
        return None, ()
    ends = np.cumsum(np.arange(1, len(pattern) + 1))
    return (layer, head), tuple(np.split(flat, ends[:-1]))


def _settings(run: Run, num_steps: int) -> tuple[tuple[SamplingParams, ...], tuple[int, ...]]:
    if isinstance(run, RecordedRun):
        return run.settings, run.step_settings
    used = run.step_params[:num_steps] if isinstance(run, LiveRun) else [run.info.params] * num_steps
    known = tuple(dict.fromkeys([*used, run.info.params]))
    return known, tuple(known.index(params) for params in used)
