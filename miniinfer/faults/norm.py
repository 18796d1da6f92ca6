"""RMS norm with the epsilon that code assumes when it does not read the model's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from miniinfer.config import ModelConfig
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.stage import StageFunction
    from miniinfer.engine.state import StepState

COMMON_EPS, OTHER_EPS = 1e-6, 1e-5  # the default of much code for llama models; the one that newer models store


def wrong_eps(config: ModelConfig) -> float:
    """1e-6, the default in much code; 1e-5 for a model whose own is about 1e-6 (files store it in float32)."""
    return OTHER_EPS if abs(config.norm_eps / COMMON_EPS - 1) < 0.01 else COMMON_EPS


def eps_in_words(config: ModelConfig) -> str:
    return f"This model's own epsilon is {config.norm_eps:.3g}; the fault takes {wrong_eps(config):g}."


def attn_norm_with_other_eps(healthy: StageFunction) -> StageFunction:
    def attn_norm(engine: Engine, state: StepState) -> None:
        """Bring each residual vector to the same length before attention, with another epsilon under the root."""
        from miniinfer.engine.ops import rms_norm

        healthy(engine, state)  # it also takes the residual stream over from the layer before
        weight = engine.weights.layers[state.layer].attn_norm
        state.attn_norm_out = rms_norm(state.resid_pre, weight, wrong_eps(engine.model_config))  # [T, E]

    return attn_norm


def mlp_norm_with_other_eps(_healthy: StageFunction) -> StageFunction:
    def mlp_norm(engine: Engine, state: StepState) -> None:
        """Bring each residual vector to the same length before the MLP, with another epsilon under the root."""
        from miniinfer.engine.ops import rms_norm

        weight = engine.weights.layers[state.layer].mlp_norm
        state.mlp_norm_out = rms_norm(state.resid_mid, weight, wrong_eps(engine.model_config))  # [T, E]

    return mlp_norm


def final_norm_with_other_eps(_healthy: StageFunction) -> StageFunction:
    def final_norm(engine: Engine, state: StepState) -> None:
        """Bring the last residual vectors to the same length, with another epsilon under the root."""
        from miniinfer.engine.ops import rms_norm

        weight = engine.weights.final_norm
        state.final_norm_out = rms_norm(state.resid_post, weight, wrong_eps(engine.model_config))  # [T, E]

    return final_norm
