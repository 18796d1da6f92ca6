"""The state of one step: a field for everything that has a name, and a program counter.

Stages rebind these fields and never change a tensor in place, so a copy of the fields is a full picture of the step at
that moment. A field is None or empty until the stage that writes it has run; those of a layer are written anew by the
next layer. Shape letters: see config.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from miniinfer.engine.groups import AttnGroup
from miniinfer.engine.scheduler import Scheduled
from miniinfer.engine.sequence import Sequence
from miniinfer.engine.stage import Stage
from miniinfer.errors import NotFiniteError

NOTHING = torch.empty(0)  # stands in a tensor field whose stage has not run yet


@dataclass(eq=False)
class StepState:
    pc: int = 0  # index of the stage that runs next
    stage: Stage | None = None  # the stage that is running, or ran last

    plan: Any = None  # of a backend: where the stages of this step write (native/decode_plan.py, graph/step.py)

    only: Sequence | None = None  # leave all other sequences out of this step

    # schedule. The only place where sequences are named: everything below holds indices into `scheduled`.
    scheduled: tuple[Scheduled, ...] = ()
    admitted: tuple[Sequence, ...] = ()  # those that this step took out of the waiting queue
    preempted: tuple[Sequence, ...] = ()  # those that it put back there, without their blocks
    waits_for: str | None = None  # what the first of the waiting lacked: see scheduler.Schedule
    width: int = 0  # padded steps only (padding.py): rows of each sequence

    # prepare_inputs
    input_ids: Tensor = NOTHING  # [T] int64
    positions: Tensor = NOTHING  # [T] int64
    rope_cos: Tensor = NOTHING  # [T, 1, D]
    rope_sin: Tensor = NOTHING  # [T, 1, D]
    groups: tuple[AttnGroup, ...] = ()  # whose rows attend together
    written_rows: Tensor = NOTHING  # padded steps only: [T] int64, the rows that are not padding
    sample_rows: tuple[int, ...] = ()  # rows (of T) after which a token is chosen: R of them, often none in a prefill
    sample_seqs: tuple[int, ...] = ()  # for each of them, the index into `scheduled`

    # The residual stream. In layer 0, resid_pre is the embedding; resid_post is the resid_pre of the next layer.
    resid_pre: Tensor = NOTHING  # [T, E]
    attn_norm_out: Tensor = NOTHING  # [T, E]
    q: Tensor = NOTHING  # [T, H, D], after RoPE once `rope` has run
    k: Tensor = NOTHING  # [T, K, D], likewise
    v: Tensor = NOTHING  # [T, K, D]

    # write_kv. Where the tokens of this step lie, found at the moment of writing (placement.py).
    pool_version: int = -1  # the pool's version when they were found
    slot_mapping: Tensor = NOTHING  # [T] int64: the slot that each row's K and V are written to
    new_blocks: Tensor = NOTHING  # blocks written for the first time in this step
    block_tables: tuple[Tensor, ...] = ()  # for each group [S * B]: what attention reads

    attn_scores: tuple[Tensor, ...] = ()  # for each group [K, S, G, Tq, C]: before softmax, -inf where hidden
    attn_pattern: tuple[Tensor, ...] = ()  # for each group [K, S, G, Tq, C]: after softmax; head h is (h // G, h % G)
    z: Tensor = NOTHING  # [T, H, D]: values mixed by the pattern
    attn_out: Tensor = NOTHING  # [T, E]
    resid_mid: Tensor = NOTHING  # [T, E] = resid_pre + attn_out
    mlp_norm_out: Tensor = NOTHING  # [T, E]
    mlp_hidden: Tensor = NOTHING  # [T, F]
    mlp_out: Tensor = NOTHING  # [T, E]
    resid_post: Tensor = NOTHING  # [T, E] = resid_mid + mlp_out

    final_norm_out: Tensor = NOTHING  # [T, E], all rows
    raw_logits: Tensor = NOTHING  # [R, V] float32 on the CPU, as is everything below
    logits: Tensor = NOTHING  # [R, V] after the logits processors so far
    errors: Mapping[int, NotFiniteError] = field(default_factory=dict)  # by sampled row (of R): no token can be drawn
    probs: Tensor = NOTHING  # [R, V] float32: what the draw uses; zeros in a row with an error
    coins: tuple[float, ...] = ()  # [R] in [0, 1)
    token_ids: tuple[int, ...] = ()  # [R]; -1 in a row with an error

    @property
    def layer(self) -> int:
        """The layer of the running stage."""
        assert self.stage is not None
        assert self.stage.layer is not None
        return self.stage.layer
