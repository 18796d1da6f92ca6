"""Kept steps against the readable program: every field of every stage, over whole runs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.backend import TORCH, Backend
from miniinfer.engine.engine import Engine
from miniinfer.engine.graph.backend import GraphBackend
from miniinfer.engine.graph.memory import table_size
from miniinfer.engine.graph.step import MOVED
from miniinfer.trace.capture import StageCapture, StageTensor
from tests.engine.helpers import SMALL
from tests.engine.tiny import TinyModel, tiny_model

PARAMS = SamplingParams(temperature=0.7, seed=5, max_new_tokens=80)
ONE, THREE = [[5, 6, 7, 8, 9]], [[5, 6, 7, 8, 9], [11, 12, 13], [1, 2]]
LONG = [i * 7 % 60 for i in range(56)]


def whole_run(
    model: TinyModel, backend: Backend, prompts: list[list[int]], block_size: int, length: int = 24
) -> tuple[list[list[int]], list[list[StageTensor]]]:
    """Output ids, and what each stage of each step wrote."""
    config = EngineConfig(block_size=block_size, pool_chunk_blocks=max(2, 70 // block_size))
    engine = Engine(model, config, backend=backend)
    params = dataclasses.replace(PARAMS, max_new_tokens=length)
    seqs, steps = [engine.add_request(ids, params) for ids in prompts], []
    while True:
        capture = StageCapture()
        if engine.step(capture) is None:
            return [seq.output_ids for seq in seqs], steps
        engine.check()
        assert not capture.dropped
        steps.append(capture.tensors)


def assert_same(found: list[list[StageTensor]], wanted: list[list[StageTensor]], tolerance: float) -> None:
    for ours, theirs in zip(found, wanted, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert (a.stage, a.layer, a.name) == (b.stage, b.layer, b.name)
            where = f"{a.stage} {a.layer} {a.name}"
            np.testing.assert_allclose(a.values, b.values, rtol=tolerance, atol=tolerance, err_msg=where)


@pytest.mark.parametrize(("prompts", "block_size"), [([LONG], 1), ([LONG], 16), ([LONG, LONG[3:], LONG[5:]], 4)])
def test_every_field_of_a_run(backend: GraphBackend, prompts: list[list[int]], block_size: int) -> None:
    """Past block boundaries, past a growing pool, and past 64 positions, where the memory gets another shape."""
    model = tiny_model()
    ids, steps = whole_run(model, backend, prompts, block_size)
    wanted_ids, wanted = whole_run(model, TORCH, prompts, block_size)
    assert ids == wanted_ids
    assert_same(steps, wanted, 2e-5)
    assert set(backend.steps) <= {"", MOVED}
    assert backend.steps[""] > 16
    assert backend.steps.total() == len(wanted) - 1, "the prompts came in one step, the rest are decode steps"


def test_every_field_in_bfloat16(backend: GraphBackend) -> None:
    model = tiny_model(dtype=torch.bfloat16)
    ids, steps = whole_run(model, backend, ONE, 4, length=12)
    wanted_ids, wanted = whole_run(model, TORCH, ONE, 4, length=12)
    assert ids == wanted_ids
    assert_same(steps, wanted, 0.06)  # a softmax over other padding may round to the other side, layer by layer
    assert backend.steps[""] >= 10


@pytest.mark.parametrize(
    ("context_len", "block_size", "longest", "expected"),
    [(1, 16, 2048, 4), (64, 16, 2048, 4), (65, 16, 2048, 8), (128, 16, 2048, 8), (129, 16, 2048, 16),
     (2040, 16, 2048, 128), (90, 16, 96, 6), (5, 1, 96, 64), (65, 1, 96, 96), (5, 64, 96, 1), (96, 7, 96, 14)],
)  # fmt: skip
def test_room_of_a_table(context_len: int, block_size: int, longest: int, expected: int) -> None:
    assert table_size(context_len, block_size, longest) == expected


def test_the_memory_is_used_again_and_stays_where_it_is(backend: GraphBackend) -> None:
    engine = Engine(tiny_model(), SMALL, backend=backend)
    engine.add_request(ONE[0], PARAMS)
    engine.step()
    first, second = engine.step(), engine.step()
    for name in ("resid_pre", "q", "k", "v", "z", "attn_out", "mlp_hidden", "resid_post", "final_norm_out"):
        assert getattr(first, name) is getattr(second, name), name
    assert second.raw_logits is not first.raw_logits, "what is sampled from is the step's own"
    assert first.attn_pattern[0].shape[-1] + 1 == second.attn_pattern[0].shape[-1]
    assert first.attn_pattern[0].data_ptr() == second.attn_pattern[0].data_ptr()


def test_within_a_step_nothing_that_is_bound_changes(backend: GraphBackend) -> None:
    engine = Engine(tiny_model(), SMALL, backend=backend)
    engine.add_request(ONE[0], PARAMS)
    for _ in range(3):
        engine.step()
    state = engine.begin_step()
    kept: list[tuple[str, torch.Tensor, torch.Tensor]] = []
    while state.pc < len(engine.program):
        cache = engine.kv_cache.data.clone()
        stage = engine.program[state.pc]
        engine.advance(state, until=state.pc + 1)
        for label, tensor, copy in kept:
            assert torch.equal(tensor, copy), (label, "changed by", stage.name)
        for name in stage.writes:
            value = getattr(state, name, None)
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, torch.Tensor):
                    kept.append((f"{stage.name} {stage.layer} {name}", part, part.clone()))
        if stage.name != "write_kv":
            assert torch.equal(cache, engine.kv_cache.data), stage.name
    assert backend.steps[""] == 3


def test_what_lies_behind_the_last_position_is_never_mixed_in(backend: GraphBackend) -> None:
    """A step that was given up may have left anything in the sequence's own block."""
    outputs = []
    for chosen in (TORCH, backend):
        engine = Engine(tiny_model(), SMALL, backend=chosen)
        seq = engine.add_request(ONE[0], PARAMS)
        for _ in range(2):
            engine.step()
        assert seq.num_computed_tokens == 6
        with torch.inference_mode():
            engine.kv_cache.data[:, :, :, seq.block_table[-1], 3:] = float("nan")
        outputs.append(engine.step().raw_logits)
    torch.testing.assert_close(outputs[0], outputs[1])


def test_sequences_of_one_engine_take_turns(backend: GraphBackend) -> None:
    """Each alone in its steps, in the same memory."""
    runs = []
    for chosen in (TORCH, backend):
        engine = Engine(tiny_model(), SMALL, backend=chosen)
        seqs = [engine.add_request(ids, dataclasses.replace(PARAMS, max_new_tokens=9)) for ids in THREE]
        while any(not seq.finished for seq in seqs):
            for seq in seqs:
                engine.step(only=seq)
                engine.check()
        runs.append([seq.output_ids for seq in seqs])
    assert runs[0] == runs[1]
    assert backend.steps[""] > 15
