"""A repetition penalty that forgets the sign of a logit, and a setup that lets it show."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.stage import StageFunction
    from miniinfer.engine.state import StepState
    from miniinfer.faults.replace import Wrap


def penalty_always_divides(healthy: StageFunction) -> StageFunction:
    def processor(engine: Engine, state: StepState) -> None:
        """Apply the next processor, but let repetition divide every logit: one below 0 rises."""
        import torch

        before = state.logits  # [R, V]
        healthy(engine, state)
        assert state.stage is not None
        assert state.stage.processor is not None
        rows = list(state.logits)
        for r, i in enumerate(state.sample_seqs):
            seq = state.scheduled[i].seq
            order = seq.params.order[state.stage.processor :][:1]
            if order == ("repetition",) and r not in state.errors:
                seen = torch.tensor(sorted(set(seq.token_ids)))
                rows[r] = before[r].index_copy(0, seen, before[r][seen] / seq.params.repetition_penalty)
        state.logits = torch.stack(rows) if rows else state.logits

    return processor


def lower_logits(amount: float) -> Wrap:
    """A setup, not a fault: all raw logits lower by the same amount. Softmax does not notice; a penalty does."""

    def wrap(healthy: StageFunction) -> StageFunction:
        def unembed(engine: Engine, state: StepState) -> None:
            healthy(engine, state)
            state.raw_logits = state.raw_logits - amount  # [R, V]
            state.logits = state.raw_logits

        return unembed

    return wrap
