"""How the engine of one session is set: its block size, how much KV cache it may reserve, how wide a step may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from miniinfer.config import EngineConfig

if TYPE_CHECKING:
    from miniinfer.engine.weights import ModelLike

CHUNK_POSITIONS = 256  # a pool grows by blocks for this many, whatever the block size
KV_BYTES = 512 * 2**20  # the most KV cache that one pool may reserve; SmolLM2 fits 11,000 positions in float32
ONE_PASS_TOKENS = 2048  # "one pass" is literally one up to here; longer prompts are prefilled in chunks


def config_for(
    model: ModelLike, block_size: int, kv_bytes: int = KV_BYTES, step_tokens: int | None = None
) -> EngineConfig:
    """kv_bytes: the most that the pool may reserve. step_tokens: the most that one step may compute. Raises
    BadInputError for a block size that is none."""
    EngineConfig(block_size=block_size)
    block_bytes = block_size * model.config.kv_bytes_per_token(model.weights.dtype.itemsize)
    return EngineConfig(
        block_size=block_size, pool_chunk_blocks=max(1, CHUNK_POSITIONS // block_size),
        max_blocks=max(1, kv_bytes // block_bytes), max_num_batched_tokens=step_tokens or ONE_PASS_TOKENS,
    )
