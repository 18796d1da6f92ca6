"""The logit lens: what the model would say next if it stopped after a layer. final_norm and unembed, the program's own
stages, are applied to the residual stream after each layer, at one position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from miniinfer.trace.inside.stage_rows import StageRows, embedding_row
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.records import FloatArray

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class LogitLens:
    """One line for the embedding and one for each layer: n = L + 1, the last of them is what the model says.

    top_ids, top_probs: [n, k], best first. final_id: the best token of the last line; ranks (from 1) and probs are
    [n] of it. next_id: the token that follows in the run, None if there is none yet; with its ranks and probs.
    entropy [n] in nats; divergence [n]: KL(last line || this line) in nats.
    """

    position: int
    top_ids: NDArray[np.int64]
    top_probs: FloatArray
    final_id: int
    final_ranks: NDArray[np.int64]
    final_probs: FloatArray
    next_id: int | None
    next_ranks: NDArray[np.int64] | None
    next_probs: FloatArray | None
    entropy: FloatArray
    divergence: FloatArray

    @property
    def labels(self) -> list[str]:
        return ["embedding", *(f"layer {layer}" for layer in range(len(self.top_ids) - 1))]

    @property
    def settled(self) -> int:
        """The first line from which on the final token stays the best one."""
        wrong = np.flatnonzero(self.final_ranks != 1)
        return int(wrong[-1]) + 1 if len(wrong) else 0


def lens_logits(run: LiveRun, rows: FloatArray) -> torch.Tensor:
    """rows [n, E] of the residual stream -> raw logits [n, V], by the stages of the run's own program."""
    import torch

    from miniinfer.engine.state import StepState

    engine = run.engine
    resid = torch.from_numpy(np.array(rows)).to(engine.device, engine.weights.dtype)
    state = StepState(resid_post=resid, sample_rows=tuple(range(len(rows))))
    with torch.inference_mode():
        for stage in engine.program:
            if stage.name in ("final_norm", "unembed"):
                state.stage = stage
                stage.fn(engine, state)
    return state.raw_logits


def logit_lens(run: LiveRun, rows: StageRows, count: int = 5) -> LogitLens:
    """Of a replay's rows at one position. In the engine's thread."""
    import torch

    stream = [embedding_row(rows.tensors), *(t.values for t in rows.over_layers("resid_post"))]
    logits = lens_logits(run, np.stack(stream))
    with torch.inference_mode():
        logs = logits.log_softmax(-1)
        probs = logs.exp()
        top = logits.topk(min(count, logits.shape[-1])).indices  # probabilities far down are all 0 in float32
        last = logs[-1]
        entropy = -(probs * logs.clamp(min=-1e30)).sum(-1)
        divergence = (probs[-1] * (last - logs).clamp(max=1e30)).sum(-1).clamp(min=0)
        final_id = int(top[-1, 0])
        token_ids = run.seq.token_ids
        next_id = token_ids[rows.position + 1] if rows.position + 1 < len(token_ids) else None
        ranks, shares = followed(logits, probs, final_id)
        next_ranks, next_shares = followed(logits, probs, next_id) if next_id is not None else (None, None)
        return LogitLens(
            rows.position, top.numpy(), probs.gather(-1, top).numpy(), final_id, ranks, shares, next_id, next_ranks,
            next_shares, entropy.numpy(), divergence.numpy(),
        )


def followed(logits: torch.Tensor, probs: torch.Tensor, token_id: int) -> tuple[NDArray[np.int64], FloatArray]:
    """Rank by logit, from 1, and probability of one token on each line; of equals the lowest id comes first."""
    mine = logits[:, token_id]
    before = (logits > mine[:, None]).sum(-1) + (logits[:, :token_id] == mine[:, None]).sum(-1)
    return (before + 1).numpy(), probs[:, token_id].numpy()
