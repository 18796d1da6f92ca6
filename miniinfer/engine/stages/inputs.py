"""From waiting requests to the first residual vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from miniinfer.engine.machine_faults import check_step_fits

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.state import StepState


def schedule(engine: Engine, state: StepState) -> None:
    """Choose which sequences take part in this step, with how many tokens each."""
    choice = engine.scheduler.schedule(parked=engine.parked_sequences(), only=state.only)
    state.scheduled = tuple(choice.scheduled)
    state.admitted = tuple(choice.admitted)
    state.preempted, state.waits_for, state.width = tuple(choice.preempted), choice.waits_for, choice.width


def prepare_inputs(engine: Engine, state: StepState) -> None:
    """Lay the chosen tokens of all sequences side by side, with the position that each has in its own sequence."""
    check_step_fits(engine, state.scheduled)
    ids = [token_id for seq, n, start in state.scheduled for token_id in seq.token_ids[start : start + n]]
    positions = [position for _, n, start in state.scheduled for position in range(start, start + n)]
    state.input_ids = torch.tensor(ids, device=engine.device)  # [T]
    state.positions = torch.tensor(positions, device=engine.device)  # [T]
    state.rope_cos, state.rope_sin = engine.rope.at(state.positions)  # [T, 1, D] each
    state.groups = engine.make_groups(state.scheduled, engine.device)

    # A token is chosen after the newest token of a sequence, and after no other.
    last_row, rows, seqs = -1, [], []
    for i, entry in enumerate(state.scheduled):
        last_row += entry.num_tokens
        if entry.stop == entry.seq.num_tokens and entry.seq.params.max_new_tokens > 0:
            rows.append(last_row)
            seqs.append(i)
    state.sample_rows, state.sample_seqs = tuple(rows), tuple(seqs)


def embed(engine: Engine, state: StepState) -> None:
    """Look up the vector of each token: the residual stream begins."""
    state.resid_pre = engine.weights.embedding(state.input_ids)  # [T, E]
