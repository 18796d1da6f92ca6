"""How the engine of one session is set: its block size, how much KV cache it may reserve, how wide a step may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from miniinfer.config import BACKENDS, EngineConfig
from miniinfer.errors import MiniInferError
from miniinfer.hosting import Hosting

if TYPE_CHECKING:
    from miniinfer.engine.backend import Backend
    from miniinfer.engine.weights import ModelLike

OWN = Hosting()  # a pool of 512 MB: SmolLM2 fits 11,000 positions in float32
ONE_PASS_TOKENS = 2048  # "one pass" is literally one up to here; longer prompts are prefilled in chunks


def backend_for(model: ModelLike, name: str) -> Backend:
    """torch, native, or auto: what the model itself chooses. Raises NativeError if native cannot be had."""
    from miniinfer.engine.backend import backend_of
    from miniinfer.native.choose import choose_backend

    return backend_of(model) if name == "auto" else choose_backend(name, model.weights)


def backend_again(model: ModelLike, name: str) -> Backend:
    """That of a run which was computed by `name`, as far as it is there now: nothing is built for it."""
    if name not in BACKENDS or name == "native":  # auto is native where that is built and fits
        return backend_for(model, "auto")
    try:
        return backend_for(model, name)
    except MiniInferError:
        return backend_for(model, "auto")


def config_for(model: ModelLike, block_size: int, hosting: Hosting = OWN) -> EngineConfig:
    """Within the limits of whoever hosts the app. Raises BadInputError for a block size that is none."""
    EngineConfig(block_size=block_size)
    block_bytes = block_size * model.config.kv_bytes_per_token(model.weights.dtype.itemsize)
    return EngineConfig(
        block_size=block_size, pool_chunk_blocks=max(1, hosting.pool_growth // block_size),
        max_blocks=max(1, hosting.session_kv_bytes // block_bytes),
        max_num_batched_tokens=hosting.max_step_tokens or ONE_PASS_TOKENS,
    )
