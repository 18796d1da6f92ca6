"""From the tensors of a file to the engine's weights: fused, in the right row order, on one device, each held once."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from miniinfer.config import ModelConfig
from miniinfer.engine.embedding import Embedding
from miniinfer.engine.linear import Linear
from miniinfer.engine.weights import LayerWeights, Weights
from miniinfer.models.converted.conversion import Conversion, Note
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


class Stored(NamedTuple):
    """A matrix of the file. num_heads: into how many heads its rows must be put in order; 0: they stand right."""

    name: str
    num_heads: int = 0


class Builder:
    """Dense weights in one dtype. packed_build.py has the other way to make a product's matrix."""

    packed = False

    def __init__(
        self, source: TensorSource, device: torch.device, dtype: torch.dtype, clock: PhaseClock, conversion: Conversion
    ) -> None:
        """conversion: may have matrices that were converted before, and hears of those that are converted now."""
        self.source, self.device, self.dtype, self.clock, self.conversion = source, device, dtype, clock, conversion

    def placed(self, weight: Tensor) -> Tensor:
        return weight.to(self.device, self.dtype)

    def read(self, matrix: Stored) -> Tensor:
        weight = self.source.read(matrix.name)
        with self.clock.phase(PREPACK):
            return undo_gguf_order(weight, matrix.num_heads) if matrix.num_heads else weight

    def read_joined(self, parts: tuple[Stored, ...]) -> Tensor:
        weights = [self.read(part) for part in parts]
        with self.clock.phase(PREPACK):
            return weights[0] if len(weights) == 1 else torch.cat(weights)

    def linear(self, *parts: Stored) -> Linear:
        """One product with the rows of all parts."""
        names = tuple(part.name for part in parts)
        known = self.conversion.take(names)
        if known is not None:
            linear, note = known
        else:
            linear, note = self.convert(*parts)
            self.conversion.made(names, linear, note)
        self.note(note)
        return linear

    def convert(self, *parts: Stored) -> tuple[Linear, Note]:
        """From the file, with what is to be known of it."""
        weight = self.read_joined(parts)
        with self.clock.phase(PREPACK):
            return Linear(self.placed(weight)), None

    def note(self, note: Note) -> None:
        """Hears what is to be known of each matrix."""

    def layer(self, number: int, config: ModelConfig) -> LayerWeights:
        names = {part: name.format(number) for part, name in self.source.names.layer_parts.items()}
        unordered = self.source.permuted_qk
        q = Stored(names["q"], config.num_heads if unordered else 0)
        k = Stored(names["k"], config.num_kv_heads if unordered else 0)
        return LayerWeights(
            attn_norm=self.placed(self.source.read(names["attn_norm"])),
            qkv=self.linear(q, k, Stored(names["v"])),
            attn_out=self.linear(Stored(names["attn_out"])),
            mlp_norm=self.placed(self.source.read(names["mlp_norm"])),
            gate_up=self.linear(Stored(names["gate"]), Stored(names["up"])),
            down=self.linear(Stored(names["down"])),
        )

    def embedding_and_unembed(self, tied: bool) -> tuple[Embedding, Linear]:
        """On the CPU the unembed matrix is packed, and the embedding keeps its rows as the file stores them: of a tied
        matrix that is the packed copy and the (for Q8_0 four times smaller) stored one. Elsewhere one dense matrix
        serves both."""
        names = self.source.names
        if self.device.type == "cpu":
            unembed = self.linear(Stored(names.embedding if tied else names.unembed))
            return self.source.embedding(names.embedding, self.dtype), unembed
        matrix = self.placed(self.source.read(names.embedding))
        return Embedding.dense(matrix), Linear(matrix) if tied else self.linear(Stored(names.unembed))

    def build(self, config: ModelConfig, progress: Progress) -> Weights:
        """Reads every tensor once. Time goes to the phases of the source and to "prepack and place"."""
        layers = []
        for number in range(config.num_layers):
            progress(f"Reading layer {number + 1} of {config.num_layers}", number / (config.num_layers + 1))
            layers.append(self.layer(number, config))
        progress("Reading the embedding", config.num_layers / (config.num_layers + 1))
        embedding, unembed = self.embedding_and_unembed(config.tied)
        final_norm = self.placed(self.source.read(self.source.names.final_norm))
        return Weights(
            embedding, tuple(layers), final_norm, unembed, self.device, self.dtype, self.packed, config.tied
        )
