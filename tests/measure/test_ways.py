"""With and without the cache, two precisions, the curve: the same tokens, and the differences where they are."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from miniinfer.cli.bench_table import bench_table
from miniinfer.config import SamplingParams
from miniinfer.engine.backend import TORCH, TorchBackend
from miniinfer.engine.engine import Engine
from miniinfer.engine.program import build_program
from miniinfer.engine.stages import attention
from miniinfer.errors import BadInputError, MiniInferError
from miniinfer.faults.replace import replace_stage
from miniinfer.measure import cache_off, precision
from miniinfer.measure.bench import Size, measure_bench
from miniinfer.measure.cache_off import measure_cache_off
from miniinfer.measure.counting import token_cost
from miniinfer.measure.curve import measure_curve, token_costs
from miniinfer.measure.precision import measure_precision
from miniinfer.measure.progress import run_through
from miniinfer.measure.workload import own_engine
from tests.engine.helpers import solo
from tests.engine.tiny import TINY, tiny_model
from tests.measure.helpers import IDS

GREEDY = SamplingParams(temperature=0, max_new_tokens=8)


def test_on_and_off_give_the_same_tokens_and_those_of_the_engine() -> None:
    found = run_through(measure_cache_off(tiny_model(), IDS, prompt=7, tokens=8, lengths=(1, 8, 40), rounds=2))
    assert found.equal
    assert found.first_difference is None
    assert list(found.on_ids) == solo(IDS, GREEDY)[0]
    assert found.max_difference < 1e-4 < found.min_margin
    assert [one.context_len for one in found.lengths] == [1, 8, 40]
    assert all(one.max_difference < 1e-4 for one in found.lengths)
    assert all(one.ratio > 0 and one.on.rounds == one.off.rounds == 2 for one in found.lengths)


def test_a_cache_that_is_wrong_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys stored before RoPE: a prefill in one pass notices nothing, a later step does."""

    def stale(engine, state):  # type: ignore[no-untyped-def]
        turned, state.k = state.k, state.k + 0.5 * (state.k.shape[0] == 1)
        attention.write_kv(engine, state)
        state.k = turned

    def broken(model, one_pass=256, backend=None):  # type: ignore[no-untyped-def]
        engine = own_engine(model, one_pass, backend)
        if one_pass == 256:
            engine.program = replace_stage(build_program(model.config), "write_kv", stale)
        return engine

    monkeypatch.setattr(cache_off, "own_engine", broken)
    with pytest.raises(MiniInferError, match="engine has a bug"):
        run_through(measure_cache_off(tiny_model(), IDS, prompt=7, tokens=8, lengths=(20,), rounds=1))


def test_both_ways_and_all_precisions_are_computed_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the core would compute some of them, and what is compared would be two programs."""
    chosen = []

    def watched(*args, **options):  # type: ignore[no-untyped-def]
        chosen.append(own_engine(*args, **options).backend)
        return own_engine(*args, **options)

    monkeypatch.setattr(cache_off, "own_engine", watched)
    model = tiny_model()
    object.__setattr__(model, "choose_backend", lambda _weights: TorchBackend())
    run_through(measure_cache_off(model, IDS, prompt=3, tokens=2, lengths=(8,), rounds=1))
    monkeypatch.setattr(precision, "own_engine", watched)
    run_through(measure_precision({"a": model, "b": model}, IDS, GREEDY, tokens=2))
    assert [backend is TORCH for backend in chosen] == [True] * 6


def test_lengths_that_do_not_fit_are_left_out() -> None:
    found = run_through(measure_cache_off(tiny_model(), IDS, prompt=3, tokens=2, lengths=(8, 512), rounds=1))
    assert [one.context_len for one in found.lengths] == [8]


def test_two_precisions_run_the_same_course_until_they_part() -> None:
    models = {"float32": tiny_model(), "bfloat16": tiny_model(dtype=torch.bfloat16)}
    found = run_through(measure_precision(models, IDS, dataclasses.replace(GREEDY, max_new_tokens=1), tokens=8))
    wide, narrow = found.runs
    assert wide.weight_bytes == 2 * narrow.weight_bytes == models["float32"].weights.nbytes
    assert wide.kv_bytes_per_token == 2 * narrow.kv_bytes_per_token == 384
    assert wide.decode_ratio == 1
    assert (wide.logit_difference, wide.kl_nats) == (0, 0)
    assert 1e-4 < narrow.logit_difference < 1
    assert 0 < narrow.kl_nats < 0.1
    assert found.num_shared == (8 if found.first_difference is None else found.first_difference + 1)
    assert wide.allocator_bytes is None
    assert [t.token_id for t in wide.tokens] == solo(IDS, GREEDY)[0]
    pairs = list(zip(wide.tokens, narrow.tokens, strict=True))
    differing = [i for i, (a, b) in enumerate(pairs) if a.token_id != b.token_id]
    assert found.first_difference == (differing[0] if differing else None)
    for a, b in pairs[: found.first_difference]:
        assert set(a.probs) == {a.token_id} == set(b.probs)
    if found.first_difference is not None:
        a, b = pairs[found.first_difference]
        assert set(a.probs) == {a.token_id, b.token_id} == set(b.probs)
        assert a.probs[a.token_id] >= a.probs[b.token_id], "greedy took the best one"


def test_the_same_model_twice_does_not_differ_and_keeps_settings_and_coins() -> None:
    params = SamplingParams(temperature=1.3, top_p=0.9, seed=5, max_new_tokens=8)
    found = run_through(measure_precision({"a": tiny_model(), "b": tiny_model()}, IDS, params, tokens=8))
    assert found.first_difference is None
    assert [t.token_id for t in found.runs[0].tokens] == solo(IDS, params)[0]


def test_a_prompt_in_parts_gives_the_same_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits longer for a step of a measurement than for one of a run."""
    sizes = []
    step = Engine.step

    def counted(self, *args, **options):  # type: ignore[no-untyped-def]
        state = step(self, *args, **options)
        sizes.append(len(state.input_ids))
        return state

    monkeypatch.setattr(Engine, "step", counted)
    models = {"a": tiny_model(), "b": tiny_model(dtype=torch.bfloat16)}
    whole = run_through(measure_precision(models, IDS, GREEDY, tokens=4))
    assert max(sizes) == 7
    sizes.clear()
    parts = run_through(measure_precision(models, IDS, GREEDY, tokens=4, one_pass=3))
    assert max(sizes) == 3
    assert [[t.token_id for t in run.tokens] for run in parts.runs] == [
        [t.token_id for t in run.tokens] for run in whole.runs
    ]
    assert parts.runs[1].kl_nats == pytest.approx(whole.runs[1].kl_nats, rel=0.5)


def test_one_precision_is_no_comparison() -> None:
    with pytest.raises(BadInputError, match="at least two"):
        run_through(measure_precision({"float32": tiny_model()}, IDS, GREEDY))


def test_the_curve_has_flat_weights_and_a_straight_line_of_cache() -> None:
    model = tiny_model()
    costs = token_costs(model, 2000, also=[33], points=5)
    assert [c.context_len for c in costs] == [1, 25, 33, 49, 72, 96], "cut at the model's own context"
    assert len({c.weight_bytes for c in costs}) == 1
    assert {c.kv_bytes / c.context_len for c in costs} == {384.0}
    program = build_program(model.config)
    counted = [token_cost(program, model.weights, model.config, c.context_len) for c in costs]
    assert list(costs) == counted, "two lengths stand for all"


def test_times_of_the_curve_stand_among_its_costs() -> None:
    curve = run_through(measure_curve(tiny_model(), IDS, (16, 40, 512), rounds=3, warm_up=1))
    assert [t.context_len for t in curve.times] == [16, 40]
    assert {16, 40} <= {c.context_len for c in curve.costs}
    assert curve.times[0].ratio == 1
    assert curve.times[1].step.rounds == 3


def test_the_bench_measures_what_fits_and_says_what_does_not() -> None:
    size = Size((4, 512), (20,), 30, prefill_rounds=2, decode_rounds=3, calibration_rounds=3, buffer_bytes=2**20)
    found = run_through(measure_bench(tiny_model(), IDS, GREEDY, size, [TORCH, TorchBackend()]))
    assert [s.num_tokens for s in found.prefill] == [4]
    assert [s.context_len for s in found.decode] == [20]
    assert "512 tokens do not fit into this model's context." in found.notes
    assert (found.calibration is not None) or "busy" in " ".join(found.notes)
    assert (found.dtype, found.backend) == ("float32", "torch")
    assert found.backends is not None
    assert found.backends.runs[0].step.context_len == 20, "no longer than the longest that fits"
    assert "torch is asked for" in bench_table(found, "tiny", 1.0)
    assert found.kv_bytes_per_token == TINY.kv_bytes_per_token(4)
    with pytest.raises(BadInputError, match="too short"):
        run_through(measure_bench(tiny_model(), IDS, GREEDY, Size((512,), (512,))))
