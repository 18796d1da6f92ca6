"""Knock-outs: what they change, that it reaches the residual stream, and that the run stays bit-identical."""

from __future__ import annotations

import pytest
import torch

from miniinfer.config import SamplingParams
from miniinfer.engine.side_engine import side_engine
from miniinfer.errors import BadInputError, MiniInferError, OutOfBlocksError
from miniinfer.faults.knock_out import Scaling, WhatIf, each_head_off, scaled_program
from miniinfer.trace.live_run import LiveRun
from tests.engine.tiny import tiny_model
from tests.trace.live import PROMPT, live_run

ALL = tuple(range(10))


def stepped(steps: int = 4, **kwargs) -> LiveRun:
    run = live_run(**kwargs)
    for _ in range(steps):
        run.step()
    return run


def logits(run: LiveRun, position: int, *scalings: Scaling, everywhere: bool = False) -> torch.Tensor:
    trial = WhatIf(run.engine, run.seq, position, scalings, everywhere=everywhere)
    try:
        while trial.step():
            pass
        assert trial.logits is not None
        return trial.logits
    finally:
        trial.release()


def snapshot(run: LiveRun) -> dict:
    engine = run.engine
    engine.check()
    return {
        "blocks": list(run.seq.block_table), "ids": list(run.seq.token_ids), "used": engine.pool.num_used,
        "sequences": list(engine.sequences), "copies": list(engine.block_copies),
        "steps": engine.scheduler.num_steps, "running": list(engine.scheduler.running),
        "waiting": list(engine.scheduler.waiting),
        "kv": engine.kv_cache.data[:, :, :, run.seq.block_table].clone(),
        "logits": run.logits_at(len(PROMPT) - 1).clone(), "records": list(run.records),
    }  # fmt: skip


def assert_same(a: dict, b: dict) -> None:
    for name, value in a.items():
        assert torch.equal(value, b[name]) if isinstance(value, torch.Tensor) else value == b[name], name


@pytest.mark.parametrize("everywhere", [False, True])
def test_the_baseline_is_bit_identical_after_it_and_in_all_its_later_steps(everywhere) -> None:
    run, twin = stepped(), stepped()
    before = snapshot(run)
    for position in (0, 5, run.seq.num_computed_tokens - 1):
        logits(run, position, Scaling(1, 0.0, ALL), Scaling(2, 0.0, mlp=True), everywhere=everywhere)
        each_head_off(run.engine, run.seq, position, 1)
    assert_same(before, snapshot(run))
    while run.step() and twin.step():
        last = run.seq.num_computed_tokens - 1
        assert run.seq.token_ids == twin.seq.token_ids
        assert torch.equal(run.logits_at(last), twin.logits_at(last))
    assert run.seq.token_ids == twin.seq.token_ids


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_factor_of_one_changes_nothing(everywhere) -> None:
    run = stepped()
    for position in (2, run.seq.num_computed_tokens - 1):
        found = logits(run, position, Scaling(0, 1.0, ALL, True), everywhere=everywhere)
        torch.testing.assert_close(found, run.logits_at(position), atol=1e-4, rtol=1e-4)
    decoded = run.seq.num_computed_tokens - 1
    assert torch.equal(logits(run, decoded), run.logits_at(decoded)), "a single row, as the run computed it"


def test_a_knocked_out_layer_adds_nothing_to_the_residual_stream() -> None:
    run = stepped()
    engine = run.engine
    seen = {}

    def watch(stage, state) -> None:
        if stage.layer == 1 and stage.name in ("attn_out", "mlp_out"):
            seen[stage.name] = (getattr(state, stage.name), state.resid_pre, state.resid_mid, state.resid_post)

    side = side_engine(engine, scaled_program(engine, [Scaling(1, 0.0, ALL), Scaling(1, 0.0, mlp=True)]))
    branch = side.fork(run.seq, 5)
    side.step(watch, only=branch)
    side.release(branch)
    assert not seen["attn_out"][0].any()
    assert not seen["mlp_out"][0].any()
    assert torch.equal(seen["mlp_out"][1], seen["mlp_out"][3])
    engine.check()


def test_scaling_equals_a_model_whose_output_matrix_is_scaled() -> None:
    factor, head = 0.5, 3
    run = stepped()
    found = logits(run, 6, Scaling(0, factor, (head,)), everywhere=True)
    model = tiny_model()
    size = model.config.head_dim
    layer = model.weights.layers[0]
    dense = layer.attn_out.to_dense().clone()
    dense[:, head * size : (head + 1) * size] *= factor
    scaled = type(layer.attn_out)(dense)
    layers = (type(layer)(**{**layer.__dict__, "attn_out": scaled}), *model.weights.layers[1:])
    object.__setattr__(model.weights, "layers", layers)
    other = live_run(model=model)
    other.step()
    torch.testing.assert_close(found, other.logits_at(6), atol=1e-4, rtol=1e-4)


def test_here_and_everywhere_agree_at_the_first_position_and_differ_later() -> None:
    run = stepped()
    off = Scaling(0, 0.0, ALL)
    torch.testing.assert_close(logits(run, 0, off), logits(run, 0, off, everywhere=True), atol=1e-4, rtol=1e-4)
    assert (logits(run, 6, off) - logits(run, 6, off, everywhere=True)).abs().max() > 1e-2


def test_each_head_off_equals_one_knock_out_after_another() -> None:
    run = stepped()
    rows = each_head_off(run.engine, run.seq, 6, 1)
    assert rows.shape == (10, 67)
    for head in ALL:
        torch.testing.assert_close(rows[head], logits(run, 6, Scaling(1, 0.0, (head,))), atol=1e-4, rtol=1e-4)


def test_factors_of_one_head_multiply() -> None:
    run = stepped()
    twice = logits(run, 6, Scaling(1, 0.5, (2,)), Scaling(1, 0.5, (2, 4)))
    torch.testing.assert_close(twice, logits(run, 6, Scaling(1, 0.25, (2,)), Scaling(1, 0.5, (4,))))


@pytest.mark.parametrize(
    ("scaling", "words"),
    [(Scaling(3), "layers 0 to 2"), (Scaling(0, 0.0, (10,)), "heads 0 to 9"), (Scaling(0, -1.0, (0,)), "from 0"),
     (Scaling(0, float("nan"), (0,)), "from 0")],
)  # fmt: skip
def test_what_the_model_does_not_have_is_a_sentence(scaling, words) -> None:
    with pytest.raises(BadInputError, match=words):
        logits(stepped(), 3, scaling)


def test_a_position_that_is_not_computed_is_a_sentence() -> None:
    run = stepped()
    with pytest.raises(BadInputError, match="not in the cache"):
        logits(run, run.seq.num_computed_tokens, Scaling(0))


def test_a_full_cache_is_a_sentence_and_leaves_the_books_balanced() -> None:
    run = stepped()
    engine = run.engine
    engine.pool.max_blocks = engine.pool.num_blocks
    if engine.pool.num_available:
        filler = engine.add_request([1] * (4 * engine.pool.num_available), SamplingParams(max_new_tokens=0))
        engine.step(only=filler)
    before = snapshot(run)
    with pytest.raises((OutOfBlocksError, MiniInferError), match="release"):
        logits(run, run.seq.num_computed_tokens - 1, Scaling(0), everywhere=True)
    with pytest.raises((OutOfBlocksError, MiniInferError), match="release"):
        each_head_off(run.engine, run.seq, run.seq.num_computed_tokens - 1, 0)
    assert_same(before, snapshot(run))
