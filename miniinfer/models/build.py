"""From the tensors of a file to the engine's weights: fused, in the right row order, on one device, each held once."""

from __future__ import annotations

import torch
from torch import Tensor

from miniinfer.config import ModelConfig
from miniinfer.engine.embedding import Embedding
from miniinfer.engine.linear import Linear
from miniinfer.engine.weights import LayerWeights, Weights
from miniinfer.models.llama import TensorSource
from miniinfer.models.registry import Progress
from miniinfer.models.report import PhaseClock

PREPACK = "prepack and place"


def undo_gguf_order(weight: Tensor, num_heads: int) -> Tensor:
    """Rows of q or k from GGUF's order to the model's own: [heads * D, E] -> [heads * D, E].

    RoPE rotates dimension i of a head together with dimension i + D/2. GGUF files of llama models store the two rows
    of such a pair side by side, which suits code that rotates neighbours; ours takes the two halves of a head.
    """
    rows, columns = weight.shape
    pairs = weight.view(num_heads, rows // num_heads // 2, 2, columns)
    return pairs.transpose(1, 2).reshape(rows, columns)


class _Builder:
    def __init__(self, source: TensorSource, device: torch.device, dtype: torch.dtype, clock: PhaseClock) -> None:
        self.source, self.device, self.dtype, self.clock = source, device, dtype, clock

    def placed(self, weight: Tensor) -> Tensor:
        return weight.to(self.device, self.dtype)

    def linear(self, *parts: Tensor) -> Linear:
        with self.clock.phase(PREPACK):
            return Linear(self.placed(parts[0] if len(parts) == 1 else torch.cat(parts)))

    def layer(self, number: int, config: ModelConfig) -> LayerWeights:
        def read(part: str) -> Tensor:
            return self.source.read(self.source.names.layer_parts[part].format(number))

        q, k = read("q"), read("k")
        if self.source.permuted_qk:
            with self.clock.phase(PREPACK):
                q, k = undo_gguf_order(q, config.num_heads), undo_gguf_order(k, config.num_kv_heads)
        return LayerWeights(
            attn_norm=self.placed(read("attn_norm")),
            qkv=self.linear(q, k, read("v")),
            attn_out=self.linear(read("attn_out")),
            mlp_norm=self.placed(read("mlp_norm")),
            gate_up=self.linear(read("gate"), read("up")),
            down=self.linear(read("down")),
        )

    def embedding_and_unembed(self, tied: bool) -> tuple[Embedding, Linear]:
        """On the CPU the unembed matrix is packed, and the embedding keeps its rows as the file stores them: of a tied
        matrix that is the packed copy and the (for Q8_0 four times smaller) stored one. Elsewhere one dense matrix
        serves both."""
        names = self.source.names
        if self.device.type == "cpu":
            unembed = self.linear(self.source.read(names.embedding if tied else names.unembed))
            return self.source.embedding(names.embedding, self.dtype), unembed
        matrix = self.placed(self.source.read(names.embedding))
        return Embedding.dense(matrix), Linear(matrix) if tied else self.linear(self.source.read(names.unembed))


def build_weights(
    source: TensorSource,
    config: ModelConfig,
    device: torch.device,
    dtype: torch.dtype,
    clock: PhaseClock,
    progress: Progress,
) -> Weights:
    """Reads every tensor once. Time goes to the phases of `source` and to "prepack and place"."""
    builder = _Builder(source, device, dtype, clock)
    layers = []
    for number in range(config.num_layers):
        progress(f"Reading layer {number + 1} of {config.num_layers}", number / (config.num_layers + 1))
        layers.append(builder.layer(number, config))
    progress("Reading the embedding", config.num_layers / (config.num_layers + 1))
    embedding, unembed = builder.embedding_and_unembed(config.tied)
    final_norm = builder.placed(source.read(source.names.final_norm))
    return Weights(embedding, tuple(layers), final_norm, unembed, device, dtype)
