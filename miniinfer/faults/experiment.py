"""From a fault to two engines that differ in nothing else. Weights are shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.program import build_program
from miniinfer.engine.stage import Stage
from miniinfer.engine.weights import ModelLike
from miniinfer.faults.fault import Fault, Situation
from miniinfer.faults.replace import Wrap, wrap_stage

CONFIG = EngineConfig(max_num_seqs=1)


def wrapped(program: tuple[Stage, ...], wraps: Mapping[str, Wrap]) -> tuple[Stage, ...]:
    """The program with all of these stages replaced."""
    for name, wrap in wraps.items():
        program = wrap_stage(program, name, wrap)
    return program


def make_engine(
    model: ModelLike, situation: Situation, fault: Fault | None = None, earlier_ids: Sequence[int] = ()
) -> Engine:
    """An engine in the situation; healthy without a fault. earlier_ids: the situation's earlier prompt, as ids.

    It is prefilled and released here, by the healthy program on both sides, so that both begin with the same cache.
    """
    healthy = wrapped(build_program(model.config), situation.setup)
    engine = Engine(model, CONFIG, program=healthy)
    if earlier_ids:
        seq = engine.add_request(earlier_ids, SamplingParams(max_new_tokens=0))
        while engine.step() is not None:
            pass
        engine.release(seq)
    engine.program = healthy if fault is None else wrapped(healthy, fault.replaced)
    return engine


def prompt_of(fault: Fault | None, ids: Sequence[int]) -> list[int]:
    """What the broken side is fed."""
    return list(ids) if fault is None or fault.prompt_edit is None else fault.prompt_edit(list(ids))
