"""Small things that engine tests share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.sequence import Sequence
from miniinfer.engine.state import StepState
from tests.engine.tiny import TinyModel, tiny_model

SMALL = EngineConfig(block_size=4, pool_chunk_blocks=3)
GREEDY = SamplingParams(temperature=0, max_new_tokens=6)
PROMPT = [5, 17, 42, 3, 66, 8, 21]
PROMPTS = ([5, 17, 42], [1, 2, 3, 4, 5], [60, 61, 62, 63, 64, 65, 66, 0, 1, 9, 11], [33], list(range(20)))


@functools.cache
def shared_tiny() -> TinyModel:
    return tiny_model()


def tiny_engine(config: EngineConfig = SMALL) -> Engine:
    return Engine(shared_tiny(), config)


def run_all(engine: Engine, each: Callable[[StepState], None] | None = None) -> list[StepState]:
    """Step until nothing is left to do, with the books checked after every step."""
    states = []
    while (state := engine.step()) is not None:
        engine.check()
        states.append(state)
        if each is not None:
            each(state)
    return states


def logits_by_seq(states: Iterable[StepState]) -> dict[str, list[Tensor]]:
    """For every sequence the raw logits [V] of each token it sampled, in order."""
    found: dict[str, list[Tensor]] = {}
    for state in states:
        for r, i in enumerate(state.sample_seqs):
            found.setdefault(state.scheduled[i].seq.seq_id, []).append(state.raw_logits[r])
    return found


def solo(prompt: Iterable[int], params: SamplingParams = GREEDY) -> tuple[list[int], list[Tensor]]:
    """What a prompt gives alone, in an engine of its own: output ids, and raw logits [V] of each."""
    engine = tiny_engine()
    seq = engine.add_request(prompt, params)
    logits = logits_by_seq(run_all(engine)).get(seq.seq_id, [])
    return seq.output_ids, logits


def cached(engine: Engine, seq: Sequence) -> Tensor:
    """All that the cache holds of a sequence: [L, 2, K, computed positions, D], a copy."""
    data = engine.kv_cache.data[:, :, :, seq.block_table]  # [L, 2, K, blocks, P, D]
    return data.flatten(3, 4)[:, :, :, : seq.num_computed_tokens].clone()


def same(a: list[Tensor], b: list[Tensor]) -> bool:
    """Bit for bit."""
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@torch.inference_mode()
def poison(engine: Engine) -> None:
    """Fill every free block with NaN, but for those that the prefix cache keeps."""
    engine.kv_cache.grow_to(engine.pool.num_blocks)
    for block, count in enumerate(engine.pool.ref_counts):
        if count == 0 and block not in engine.pool.prefixes:
            engine.kv_cache.data[:, :, :, block] = float("nan")
