"""What the engine needs from a model: its weights, its facts, what its tokens are. Shared by users, never written."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from miniinfer.config import ModelConfig
from miniinfer.engine.embedding import Embedding
from miniinfer.engine.linear import Linear


@dataclass(frozen=True)
class LayerWeights:
    """The weights of one transformer layer, in the order in which a step uses them."""

    attn_norm: Tensor  # [E]
    qkv: Linear  # [(H + 2K) * D, E]: the rows of q, then k, then v
    attn_out: Linear  # [E, H * D]
    mlp_norm: Tensor  # [E]
    gate_up: Linear  # [2F, E]: the rows of gate, then up
    down: Linear  # [E, F]

    @property
    def nbytes(self) -> int:
        """Bytes that one step reads of this layer."""
        return sum(
            part.nbytes
            for part in (self.attn_norm, self.qkv, self.attn_out, self.mlp_norm, self.gate_up, self.down)
        )


@dataclass(frozen=True)
class Weights:
    """All weights of a model on one device. dtype: that of everything between two products, the KV cache included; the
    weights have it too, but for the embedding (storage type of its file) and, if `packed`, the matrices."""

    embedding: Embedding  # ids [T] -> [T, E]
    layers: tuple[LayerWeights, ...]
    final_norm: Tensor  # [E]
    unembed: Linear  # [V, E]
    device: torch.device
    dtype: torch.dtype
    packed: bool = False  # products go through the forms of packed.py
    tied: bool = False  # unembed has the numbers of the embedding

    @property
    def precision(self) -> str:
        """float32, bfloat16 or packed."""
        return "packed" if self.packed else str(self.dtype).removeprefix("torch.")

    @cached_property  # asked for after every step
    def nbytes(self) -> int:
        """Bytes of everything but the embedding: what a step with at least one sampled row reads.

        On devices other than the CPU, where one dense tied tensor is both embedding and unembed, this is all of it.
        """
        return sum(layer.nbytes for layer in self.layers) + self.final_norm.nbytes + self.unembed.nbytes


class ModelLike(Protocol):
    """What an Engine takes. `models.LoadedModel` is one; tests build tiny ones."""

    @property
    def config(self) -> ModelConfig: ...

    @property
    def weights(self) -> Weights: ...

    @property
    def stop_ids(self) -> AbstractSet[int]: ...

    @property
    def token_bytes(self) -> tuple[bytes, ...]:
        """The bytes of each token id, length V."""
        ...
