"""The MLP half of a layer: each token is worked on by itself. T rows, E hidden size, F MLP size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch.nn.functional as F

from miniinfer.engine.ops import rms_norm

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.state import StepState


def mlp_norm(engine: Engine, state: StepState) -> None:
    """Bring each residual vector to the same length before the MLP reads it."""
    weight = engine.weights.layers[state.layer].mlp_norm
    state.mlp_norm_out = rms_norm(state.resid_mid, weight, engine.model_config.norm_eps)  # [T, E]


def mlp_hidden(engine: Engine, state: StepState) -> None:
    """Ask F questions of each token: one half of the product says how far each gate opens, the other what passes."""
    gate, up = engine.weights.layers[state.layer].gate_up(state.mlp_norm_out).chunk(2, dim=-1)  # [T, F] each
    state.mlp_hidden = F.silu(gate) * up  # [T, F]


def mlp_out(engine: Engine, state: StepState) -> None:
    """Turn what passed the gates into a vector and add it to the residual stream."""
    state.mlp_out = engine.weights.layers[state.layer].down(state.mlp_hidden)  # [T, F] -> [T, E]
    state.resid_post = state.resid_mid + state.mlp_out  # [T, E]
