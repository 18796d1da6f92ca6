"""The two operations that are neither a product nor a softmax, written out."""

from __future__ import annotations

import torch
from torch import Tensor

from miniinfer.config import ModelConfig


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Divide each row of x [T, E] by its root mean square, then scale each column by weight [E]. In float32 inside."""
    wide = x.float()
    mean_square = wide.pow(2).mean(-1, keepdim=True)  # [T, 1]
    return (wide * torch.rsqrt(mean_square + eps)).to(x.dtype) * weight


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """RoPE: turn each pair (x[i], x[i + D/2]) of x [T, heads, D] by its angle; cos, sin: [T, 1, D]."""
    first, second = x.chunk(2, dim=-1)  # [T, heads, D / 2] each
    turned = torch.cat((-second, first), dim=-1)  # x after a quarter turn
    return x * cos + turned * sin


class Rope:
    """The angles of RoPE: position p turns pair i by p * base ** (-2i / D)."""

    def __init__(self, config: ModelConfig, dtype: torch.dtype, device: torch.device) -> None:
        exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim  # [D / 2]
        self.frequencies = (config.rope_base**-exponents).to(device)
        self.dtype = dtype

    def at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin of the angles at positions [T], each [T, 1, D] with both halves of D alike."""
        angles = positions[:, None, None].float() * self.frequencies  # [T, 1, D / 2]
        cos, sin = angles.cos().to(self.dtype), angles.sin().to(self.dtype)
        return torch.cat((cos, cos), dim=-1), torch.cat((sin, sin), dim=-1)
