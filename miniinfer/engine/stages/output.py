"""From the last residual vectors to one new token for each sequence that is due. R rows are sampled, of T."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from miniinfer.engine import logits, sampler
from miniinfer.engine.ops import rms_norm

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.state import StepState


def final_norm(engine: Engine, state: StepState) -> None:
    """Bring the last residual vectors to the same length."""
    weight = engine.weights.final_norm
    state.final_norm_out = rms_norm(state.resid_post, weight, engine.model_config.norm_eps)  # [T, E]


def unembed(engine: Engine, state: StepState) -> None:
    """Score every token of the vocabulary as the next one, for the rows after which a token is chosen."""
    rows = state.final_norm_out[list(state.sample_rows)]  # [R, E]
    # Sampling is done in float32 on the CPU, whatever the model runs in and on: the same rules everywhere.
    state.raw_logits = engine.weights.unembed(rows).float().cpu()  # [R, V]
    state.logits = state.raw_logits
    state.errors = logits.not_finite_rows(state.raw_logits, logits.RAW)


def processor(engine: Engine, state: StepState) -> None:
    """Apply the next logits processor of each sequence's own order; one that is switched off changes nothing."""
    assert state.stage is not None
    assert state.stage.processor is not None
    rows = list(state.logits)  # R times [V]
    changed = False
    for r, i in enumerate(state.sample_seqs):
        seq = state.scheduled[i].seq
        order = seq.params.order
        if state.stage.processor < len(order) and r not in state.errors:
            name = order[state.stage.processor]
            before = rows[r]
            rows[r] = logits.process(name, before, seq.params, seq.prompt_ids, seq.output_ids)
            changed = changed or rows[r] is not before
    if changed:
        state.logits = torch.stack(rows)  # [R, V]


def softmax(engine: Engine, state: StepState) -> None:
    """Turn the logits into probabilities; at temperature 0 all of it goes to the best token."""
    state.errors = {**logits.not_finite_rows(state.logits, logits.PROCESSED), **state.errors}
    rows = [
        torch.zeros_like(row) if r in state.errors else sampler.probabilities(row, state.scheduled[i].seq.params)
        for r, (row, i) in enumerate(zip(state.logits, state.sample_seqs, strict=True))
    ]
    state.probs = torch.stack(rows) if rows else torch.zeros_like(state.logits)  # [R, V]


def sample(engine: Engine, state: StepState) -> None:
    """Toss each sequence's coin for this place of its output, and take the token on which it lands."""
    coins, token_ids = [], []
    for r, i in enumerate(state.sample_seqs):
        seq = state.scheduled[i].seq
        coin = sampler.coin(seq.params.seed, seq.num_output_tokens)  # tossed also when greedy
        coins.append(coin)
        token_ids.append(-1 if r in state.errors else sampler.draw(state.probs[r], coin))
    state.coins, state.token_ids = tuple(coins), tuple(token_ids)


def commit(engine: Engine, state: StepState) -> None:
    """Make the step count: its positions are computed, each new token joins its sequence, and some sequences end."""
    token_ids = dict(zip(state.sample_seqs, state.token_ids, strict=True))
    errors = {state.sample_seqs[r]: str(error) for r, error in state.errors.items()}
    outcomes = []
    for i, entry in enumerate(state.scheduled):
        if entry.num_tokens == 0:
            continue  # nothing but padding
        new_ids = [token_ids[i]] if i in token_ids and i not in errors else []
        reason = "abort" if i in errors else None
        if reason is None and entry.stop == entry.seq.num_tokens:
            reason = engine.finish_reason(entry.seq, new_ids)
        outcomes.append((entry, new_ids, reason, errors.get(i)))
    # Nothing above has changed anything, and nothing below can fail: the step counts as a whole or not at all.
    for entry, new_ids, reason, error in outcomes:
        entry.seq.num_computed_tokens = entry.stop
        engine.scheduler.computed(entry)
        entry.seq.token_ids.extend(new_ids)
        if reason is not None:
            engine.scheduler.remove(entry.seq)
            entry.seq.finish(reason, error)
