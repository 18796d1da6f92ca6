"""Static batching in the model: the same program with two stages replaced, so that every sequence brings W rows.

The rows of a step are then a rectangle of S x W slots, laid out sequence by sequence: the tokens that a sequence has to
bring, then padding. A padding slot goes through every product like any other row, which is what padding costs; but its
key and value are not stored, nobody attends to it, and no token is chosen after it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from miniinfer.config import ModelConfig
from miniinfer.engine.groups import AttnGroup
from miniinfer.engine.placement import place_tokens
from miniinfer.engine.program import build_program
from miniinfer.engine.stage import Stage, StageFunction

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.scheduler import Scheduled
    from miniinfer.engine.state import StepState

PADDING_ID = 0  # any token would do: nobody reads what it leaves


def padded_program(config: ModelConfig) -> tuple[Stage, ...]:
    """The program of a static batch."""
    replaced: dict[str, tuple[StageFunction, tuple[str, ...], tuple[str, ...]]] = {
        "prepare_inputs": (prepare_padded_inputs, ("width",), ("written_rows",)),
        "write_kv": (write_real_kv, ("written_rows",), ()),
    }
    program = []
    for stage in build_program(config):
        if stage.name in replaced:
            fn, reads, writes = replaced[stage.name]
            stage = replace(stage, fn=fn, reads=stage.reads + reads, writes=stage.writes + writes)
        program.append(stage)
    return tuple(program)


def prepare_padded_inputs(engine: Engine, state: StepState) -> None:
    """Lay the tokens of all sequences in a rectangle, filled up with padding, and choose the rows that count."""
    width = state.width
    ids: list[int] = []
    positions: list[int] = []
    written: list[int] = []
    rows, seqs = [], []
    for i, entry in enumerate(state.scheduled):
        seq, n, start = entry
        ids += seq.token_ids[start : start + n] + [PADDING_ID] * (width - n)
        positions += range(start, start + width)
        written += range(i * width, i * width + n)
        if n > 0 and entry.stop == seq.num_tokens and seq.params.max_new_tokens > 0:
            rows.append(i * width + n - 1)
            seqs.append(i)
    state.input_ids = torch.tensor(ids, device=engine.device)  # [T], T = S * W
    state.positions = torch.tensor(positions, device=engine.device)  # [T]
    state.rope_cos, state.rope_sin = engine.rope.at(state.positions)  # [T, 1, D] each
    state.groups = (rectangle(state.scheduled, width, engine.device),)
    state.written_rows = torch.tensor(written, dtype=torch.int64, device=engine.device)
    state.sample_rows, state.sample_seqs = tuple(rows), tuple(seqs)


def rectangle(scheduled: tuple[Scheduled, ...], width: int, device: torch.device) -> AttnGroup:
    """All sequences as one attention group of `width` rows each. A padding row sees what its position would see:
    something must be there, for a softmax over nothing is NaN."""
    starts = torch.tensor([entry.start for entry in scheduled], device=device)
    visible = starts[:, None] + torch.arange(1, width + 1, device=device)  # [S, W] keys up to and with the row's own
    longest = max(entry.stop for entry in scheduled)
    hidden = torch.arange(longest, device=device) >= visible[:, None, :, None]  # [S, 1, W, C]
    return AttnGroup(0, len(scheduled), 0, width, tuple(entry.stop for entry in scheduled), hidden)


def write_real_kv(engine: Engine, state: StepState) -> None:
    """Store the new keys and values in the cache, but for those of padding."""
    place_tokens(engine, state)
    rows = state.written_rows
    engine.kv_cache.write(state.layer, state.slot_mapping, state.new_blocks, state.k[rows], state.v[rows])
