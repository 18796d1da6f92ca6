"""What runs beside an engine leaves no trace in it, whatever its stages do."""

from __future__ import annotations

import torch

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.side_engine import side_engine
from miniinfer.faults.knock_out import Scaling, scaled_program
from tests.engine.helpers import GREEDY, PROMPT
from tests.engine.tiny import tiny_model

ALL_HEADS = Scaling(0, 0.0, tuple(range(10)))
LONG = [*PROMPT, *range(20, 40)]


def logits_of_next(engine: Engine, ids: list[int]) -> torch.Tensor:
    seq = engine.add_request(ids, GREEDY)
    state = engine.step(only=seq)
    assert state is not None
    engine.release(seq)
    return state.raw_logits


def test_blocks_of_a_broken_text_are_never_found_by_a_healthy_one() -> None:
    config = EngineConfig(block_size=4, prefix_caching=True)
    engine = Engine(tiny_model(), config)
    healthy = logits_of_next(Engine(tiny_model(), config), LONG)
    side = side_engine(engine, scaled_program(engine, [ALL_HEADS]))
    broken = logits_of_next(side, LONG)
    assert (broken - healthy).abs().max() > 1e-2
    assert torch.equal(logits_of_next(engine, LONG), healthy)
    engine.check()


def test_a_side_engine_reads_the_healthy_blocks_and_leaves_queues_and_books_alone() -> None:
    engine = Engine(tiny_model(), EngineConfig(block_size=4, prefix_caching=True))
    seq = engine.add_request(LONG, SamplingParams(temperature=0, max_new_tokens=8))
    engine.step()
    waiting = engine.add_request(PROMPT, GREEDY)
    before = (engine.scheduler.num_steps, list(engine.sequences), list(engine.block_copies), engine.pool.num_used)
    side = side_engine(engine, scaled_program(engine, [ALL_HEADS]))
    branch = side.fork(seq, 10)
    side.step()
    assert branch.num_computed_tokens == 10
    assert side.block_copies
    side.release(branch)
    assert (
        engine.scheduler.num_steps, list(engine.sequences), list(engine.block_copies), engine.pool.num_used
    ) == before  # fmt: skip
    assert waiting.num_computed_tokens == 0
    engine.check()
