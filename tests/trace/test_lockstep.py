"""Two engines in lockstep: what is equal, what differs first, and that nothing stays behind."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import pytest
import torch

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.faults.replace import wrap_stage
from miniinfer.trace.lockstep import NUM_BARS, Lockstep, LockstepRecord
from miniinfer.trace.records import TokenInfo
from miniinfer.trace.text_loss import LossRun
from tests.engine.tiny import TINY, tiny_model

IDS = [3, 1, 4, 1, 5, 9, 2, 6]
GREEDY = SamplingParams(temperature=0, max_new_tokens=4)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tiny():
    return tiny_model()


def describe(token_id: int) -> TokenInfo:
    return TokenInfo(token_id, f"<{token_id}>", b"")


def lockstep(a: Engine, b: Engine, params=GREEDY, ids=(IDS, IDS)) -> LockstepRecord:
    both = Lockstep(a, b, ids, params, describe)
    steps = list(both.work())
    assert steps == list(range(1, len(steps) + 1))
    record = both.record()
    both.close()
    for engine in (a, b):
        engine.check()
        assert engine.pool.num_used == 0
        assert engine.sequences == {}
    return record


def louder(model, name: str, layer: int, at_step: int = 1) -> Engine:
    """An engine that doubles what one stage of one layer gives, from a step on."""
    steps = {"n": 0}

    def wrap(healthy):
        def fn(engine, state):
            healthy(engine, state)
            steps["n"] += 1
            if steps["n"] >= at_step:
                state.mlp_out = state.mlp_out * 2
                state.resid_post = state.resid_mid + state.mlp_out

        return fn

    engine = Engine(model)
    engine.program = wrap_stage(engine.program, name, wrap, layers=[layer])
    return engine


def test_two_healthy_engines_agree_in_every_tensor_of_every_step(tiny):
    params = SamplingParams(temperature=1.2, top_p=0.9, seed=11, max_new_tokens=5)
    record = lockstep(Engine(tiny), Engine(tiny), params)
    assert record.first is None
    assert record.stages == record.growth == ()
    assert record.steps == 5
    assert record.a == record.b
    assert record.comparison.first_difference is None
    assert record.comparison.common == 5
    engine = Engine(tiny)
    seq = engine.add_request(IDS, params)
    for bar, found in zip(record.bars, record.a.outputs, strict=True):
        state = engine.step()
        assert bar.taken == (state.token_ids[0],) * 2
        assert bar.a == bar.b == tuple(state.logits[0].softmax(-1)[[t.token_id for t in bar.tokens]].tolist())
        used = dict(zip((t.token_id for t in found.tokens), found.used_probs, strict=True))
        assert used[state.token_ids[0]] == state.probs[0][state.token_ids[0]].item()
        assert found.coin == state.coins[0]
        assert found.lo <= found.coin < found.hi
        assert found.num_kept == int((state.probs[0] > 0).sum())
    assert [t.token_id for t in record.a.output_tokens] == seq.output_ids
    assert record.a.finish_reason == "length"


def test_cut_candidates_say_by_which_processor(tiny):
    params = SamplingParams(temperature=1.0, top_k=3, top_p=1.0, max_new_tokens=1)
    found = lockstep(Engine(tiny), Engine(tiny), params).a.outputs[0]
    assert found.num_kept == 3
    assert set(found.cut_by[:3]) == {None}
    assert set(found.cut_by[3:]) == {"top_k"}


@pytest.mark.parametrize("chunk", [256, 3])
def test_the_first_difference_is_the_stage_that_was_changed(tiny, chunk):
    config = EngineConfig(max_num_batched_tokens=chunk)
    broken = louder(tiny, "mlp_out", 1)
    healthy = Engine(tiny, config)
    broken = Engine(tiny, config, program=broken.program)
    record = lockstep(healthy, broken)
    assert record.first is not None
    difference = record.first.difference
    assert (difference.stage, difference.layer, difference.name) == ("mlp_out", 1, "mlp_out")
    assert (record.first.step, record.first.phase) == (1, "prefill")
    assert record.first.shapes[0] == record.first.shapes[1] == (min(chunk, 8), TINY.hidden_size)
    assert record.steps == 1
    assert len(record.growth) == TINY.num_layers
    assert record.growth[0] == 0 < record.growth[1]
    before = record.stages[: record.stages.index(difference)]
    assert before
    assert all(d.largest == 0 for d in before)
    assert len(record.a.outputs) == len(record.b.outputs) == 4


def test_a_difference_that_comes_with_decode_is_found_there(tiny):
    record = lockstep(Engine(tiny), louder(tiny, "mlp_out", 2, at_step=3))
    assert record.first is not None
    assert (record.first.step, record.first.phase) == (3, "decode")
    assert record.steps == 3
    assert record.comparison.common >= 2


def test_a_longer_prompt_differs_in_shape(tiny):
    record = lockstep(Engine(tiny), Engine(tiny), ids=(IDS, [3, *IDS]))
    assert record.first is not None
    assert record.first.difference.name == "input_ids"
    assert record.first.difference.largest == math.inf
    assert record.first.shapes == ((8,), (9,))
    assert not record.comparison.same_prompt


def test_one_side_may_end_before_the_other(tiny):
    reached = lockstep(Engine(tiny), Engine(tiny)).a.output_tokens[1].token_id
    stops = dataclasses.replace(tiny, stop_ids=frozenset({reached}))
    record = lockstep(Engine(tiny), Engine(stops))
    assert (record.a.finish_reason, record.b.finish_reason) == ("length", "stop")
    ended = len(record.b.outputs)
    assert ended <= 2
    assert record.first is None
    assert [bar.b is None for bar in record.bars] == [i >= ended for i in range(4)]
    assert record.bars[-1].taken[1] is None
    assert record.comparison.first_difference is None
    assert record.comparison.common == ended


def test_a_side_without_usable_logits_ends_with_its_sentence(tiny):
    def wrap(healthy):
        def unembed(engine, state):
            healthy(engine, state)
            state.raw_logits = state.raw_logits * math.nan
            state.logits = state.raw_logits

        return unembed

    broken = Engine(tiny)
    broken.program = wrap_stage(broken.program, "unembed", wrap)
    record = lockstep(Engine(tiny), broken)
    assert record.b.outputs == ()
    assert record.b.finish_reason == "abort"
    assert "not usable" in (record.b.error or "")
    assert len(record.a.outputs) == 4
    assert record.first is not None
    assert record.first.difference.name == "raw_logits"


def test_the_bars_hold_the_best_of_either_side_and_what_was_taken(tiny):
    record = lockstep(Engine(tiny), louder(tiny, "mlp_out", 1), SamplingParams(temperature=3.0, top_p=1.0, seed=4))
    for bar in record.bars:
        ids = [t.token_id for t in bar.tokens]
        assert len(set(ids)) == len(ids) <= NUM_BARS + 2
        assert set(bar.taken) - {None} <= set(ids)


def test_closing_in_the_middle_gives_everything_back(tiny):
    engines = Engine(tiny), Engine(tiny)
    both = Lockstep(*engines, (IDS, IDS), GREEDY, describe)
    next(both.work())
    both.close()
    for engine in engines:
        engine.check()
        assert engine.pool.num_used == 0


def test_a_stage_that_fails_leaves_nothing_behind(tiny):
    def wrap(_healthy):
        def attn_mix(engine, state):
            raise RuntimeError("a stage that fails")

        return attn_mix

    engines = Engine(tiny), Engine(tiny)
    engines[1].program = wrap_stage(engines[1].program, "attn_mix", wrap, layers=[1])
    both = Lockstep(*engines, (IDS, IDS), GREEDY, describe)
    with pytest.raises(RuntimeError, match="a stage that fails"):
        list(both.work())
    both.close()
    for engine in engines:
        engine.check()
        assert engine.pool.num_used == 0


@pytest.mark.parametrize("token_by_token", [False, True])
def test_the_loss_is_that_of_the_plain_logits(tiny, token_by_token):
    engine = Engine(tiny, EngineConfig(max_num_batched_tokens=5))
    run = LossRun(engine, IDS, token_by_token=token_by_token)
    assert list(run.work()) == (list(range(1, 9)) if token_by_token else [5, 8])
    found = run.loss()
    run.close()
    assert engine.pool.num_used == 0
    expected = []
    for n in range(1, len(IDS)):
        plain = Engine(tiny)
        plain.add_request(IDS[:n], SamplingParams(temperature=0, max_new_tokens=1))
        expected.append(-plain.step().raw_logits[0].log_softmax(-1)[IDS[n]].item())
    assert found.nats == pytest.approx(expected, abs=1e-4)
    assert found.mean == pytest.approx(sum(expected) / 7, abs=1e-4)


def test_leading_tokens_can_be_left_out_of_the_loss(tiny):
    engine = Engine(tiny)
    runs = [LossRun(engine, IDS, token_by_token=False, skip=skip) for skip in (0, 2)]
    for run in runs:
        assert list(run.work()) == [8]
    assert runs[1].loss().nats == runs[0].loss().nats[2:]
    assert len(runs[1].loss().nats) == 5
