"""What each stage of the sampler leaves, by hand and against the engine's own record; other coins and temperatures."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from miniinfer.config import PROCESSOR_NAMES, SamplingParams
from miniinfer.engine.sampler import coin, draw, sampler_trace
from miniinfer.errors import NotFiniteError
from miniinfer.trace.records import TokenInfo
from miniinfer.trace.sampling.candidates import next_token_of
from miniinfer.trace.sampling.draws import MANY, coins_from, draw_many, greedy_margin, sweep_temperature
from miniinfer.trace.sampling.place import place_of
from miniinfer.trace.sampling.sampling import ORDERS, Sampling, sampling_of
from tests.trace.live import finished_run, live_run

OFF = {"temperature": 1.0, "top_p": 1.0}


def row(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def of(logits: torch.Tensor, coin: float | None = 0.5, **changes: object) -> Sampling:
    return sampling_of(logits, SamplingParams(**OFF | changes), coin=coin)  # type: ignore[arg-type]


def stage(sampling: Sampling, name: str):
    return next(s for s in sampling.stages if s.name == name)


def test_both_orders_of_the_worked_example_with_top_p() -> None:
    """SMP-05 (a)"""
    first, last = (of(row(3, 2, 1), temperature=0.5, top_p=0.8, order=order) for order in ORDERS.values())
    np.testing.assert_allclose(first.used.probs, [1, 0, 0])
    np.testing.assert_allclose(last.used.probs, [0.8808, 0.1192, 0], atol=5e-5)
    assert (first.used.num_kept, last.used.num_kept) == (1, 2)


def test_both_orders_of_the_worked_example_with_min_p() -> None:
    """SMP-05 (b)"""
    logits = torch.log(row(0.5, 0.3, 0.15, 0.05))
    first, last = (of(logits, temperature=2.0, min_p=0.2, order=order) for order in ORDERS.values())
    np.testing.assert_allclose(first.used.probs, [0.3790, 0.2936, 0.2076, 0.1198], atol=5e-5)
    np.testing.assert_allclose(last.used.probs, [0.4306, 0.3335, 0.2359, 0], atol=5e-5)


def test_greedy_is_a_stage_of_its_own() -> None:
    """SMP-01: other filters ignored, the lowest of equals, the seed irrelevant."""
    for seed in (0, 7):
        sampling = of(row(2, 5, 5, 1), coin=None, temperature=0.0, top_p=0.9, top_k=50, seed=seed)
        assert sampling.used.probs.tolist() == [0, 1, 0, 0]
        assert sampling.token_id == 1
        assert (sampling.lo, sampling.hi) == (0, 1)
    assert sampling.stages[-2].num_kept == 4
    assert (sampling.used.num_kept, sampling.used.num_cut, sampling.used.entropy) == (1, 3, 0)
    assert sampling.used.mass_cut == pytest.approx(1 - sampling.raw.probs[1])
    assert (sampling.cut_by == -1).all()


def test_mass_and_entropy_of_a_filter_by_hand() -> None:
    sampling = of(torch.log(row(0.5, 0.25, 0.15, 0.1)), top_k=2)
    cut = stage(sampling, "top_k")
    assert (cut.num_kept, cut.num_cut) == (2, 2)
    assert cut.mass_cut == pytest.approx(0.25, abs=1e-6)
    assert cut.mass_moved == pytest.approx(0.25, abs=1e-6)
    np.testing.assert_allclose(cut.probs, [2 / 3, 1 / 3, 0, 0], atol=1e-6)
    assert sampling.raw.entropy == pytest.approx(-sum(p * math.log(p) for p in (0.5, 0.25, 0.15, 0.1)), abs=1e-6)
    assert cut.entropy == pytest.approx(math.log(3) - 2 / 3 * math.log(2), abs=1e-6)


def test_temperature_moves_mass_and_cuts_none() -> None:
    """SMP-09: raw [.6652, .2447, .0900], used [.8668, .1173, .0159]"""
    sampling = of(row(3, 2, 1), temperature=0.5)
    np.testing.assert_allclose(sampling.raw.probs, [0.6652, 0.2447, 0.0900], atol=5e-5)
    np.testing.assert_allclose(sampling.used.probs, [0.8668, 0.1173, 0.0159], atol=5e-5)
    warm = stage(sampling, "temperature")
    assert (warm.num_cut, warm.mass_cut) == (0, 0)
    assert warm.mass_moved == pytest.approx(0.8668 - 0.6652, abs=1e-4)


def test_draws_of_10_000_seeds_follow_the_used_column() -> None:
    """SMP-09: the second token 1173 times, give or take four spreads of chance"""
    sampling = of(row(3, 2, 1), temperature=0.5)
    draws = draw_many(sampling, [coin(seed, 0) for seed in range(10_000)])
    assert abs(int(draws.counts[1]) - 1173) <= 129
    assert all(abs(draws.deviation(i)) < 4 for i in range(3))


@pytest.mark.parametrize("k", [0, 1, 5, 50])
def test_top_k_of_a_small_vocabulary(k: int) -> None:
    """SMP-04"""
    sampling = of(row(0.1, 0.5, 0.3, 0.2, 0.4), top_k=k)
    assert stage(sampling, "top_k").off == (k != 1)
    assert sampling.used.num_kept == (1 if k == 1 else 5)


def test_stages_that_are_off_change_nothing_and_say_so() -> None:
    sampling = of(torch.randn(50, generator=torch.Generator().manual_seed(0)))
    assert [s.name for s in sampling.stages] == ["logits", *PROCESSOR_NAMES, "softmax"]
    assert all(s.off for s in sampling.stages[1:])
    assert sampling.used.probs is sampling.raw.probs


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_row_that_is_not_finite_is_a_named_error(bad: float) -> None:
    """SMP-02"""
    with pytest.raises(NotFiniteError):
        of(row(1, bad, 2))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6), st.permutations(PROCESSOR_NAMES), st.integers(0, 6), st.floats(0.2, 2),
    st.floats(0.1, 1), st.integers(0, 30), st.floats(0, 0.5), st.floats(0.5, 2),
)  # fmt: skip
def test_any_order_agrees_with_the_engines_record(
    seed: int, names: list[str], used: int, temperature: float, top_p: float, top_k: int, min_p: float, penalty: float
) -> None:
    logits = 3 * torch.randn(40, generator=torch.Generator().manual_seed(seed))
    params = SamplingParams(
        temperature=temperature, top_p=top_p, top_k=top_k, min_p=min_p, repetition_penalty=penalty,
        frequency_penalty=0.3, seed=seed, order=tuple(names[:used]),
    )
    sampling, trace = sampling_of(logits, params, [1, 2], [3, 3]), sampler_trace(logits, params, [1, 2], [3, 3])
    assert np.array_equal(sampling.used.probs, trace.probs.numpy())
    assert sampling.order.tolist() == trace.order.tolist()
    assert (sampling.token_id, sampling.coin, sampling.lo, sampling.hi) == (
        trace.token_id, trace.coin, trace.lo, trace.hi,
    )
    for before, after in zip(sampling.stages, sampling.stages[1:], strict=False):
        assert after.num_kept == before.num_kept - after.num_cut
        assert after.probs.sum() == pytest.approx(1, abs=1e-5)
        if after.name.startswith(("top", "min")):
            assert after.mass_moved == pytest.approx(after.mass_cut, abs=1e-5)
    for place, token_id in enumerate(sampling.order):
        assert sampling.places[token_id] == place


def test_ranks_at_a_stage_put_the_lowest_of_equals_first() -> None:
    sampling = of(row(1, 3, 3, 2), top_k=2)
    assert [sampling.rank_before(i, 0) for i in range(4)] == [4, 1, 2, 3]


def test_100_000_draws_follow_the_used_distribution_of_the_default_order() -> None:
    logits = 2 * torch.randn(2000, generator=torch.Generator().manual_seed(3))
    sampling = sampling_of(logits, SamplingParams(temperature=0.9, top_p=0.9))
    draws = draw_many(sampling, coins_from(5, 0, 100_000))
    assert (draws.counts[sampling.used.probs == 0] == 0).all()
    found, freedom = draws.chi_square()
    assert freedom > 100
    assert abs(found - freedom) < 5 * math.sqrt(2 * freedom)
    assert draws.counts.sum() == draws.total == 100_000


def test_many_draws_are_the_single_draws_of_the_same_coins() -> None:
    sampling = of(torch.randn(300, generator=torch.Generator().manual_seed(2)), top_k=20)
    coins = coins_from(9, 4, 200)
    assert coins == [coin(9, 4 + i) for i in range(200)]
    probs = torch.from_numpy(sampling.used.probs)
    assert draw_many(sampling, coins).token_ids.tolist() == [draw(probs, c) for c in coins]


def test_the_deviation_that_chance_explains_by_hand() -> None:
    draws = draw_many(of(torch.log(row(0.5, 0.5))), [0.1] * 60 + [0.9] * 40)
    assert draws.counts.tolist() == [60, 40]
    assert draws.expected(0) == pytest.approx(50)
    assert draws.spread(0) == pytest.approx(5)
    assert draws.deviation(0) == pytest.approx(2)
    assert draws.chi_square() == (pytest.approx(4), 1)
    certain = draw_many(of(row(5, 1), temperature=0.0), [0.3] * MANY)
    assert (certain.deviation(0), certain.chi_square()) == (0, (0.0, 0))


def test_the_same_seed_has_the_same_coins_whatever_the_settings() -> None:
    logits = torch.randn(60, generator=torch.Generator().manual_seed(1))
    one = sampling_of(logits, SamplingParams(seed=4), (1,), (2, 3))
    other = sampling_of(logits, SamplingParams(seed=4, temperature=2, top_k=3, top_p=0.5), (1,), (2, 3))
    assert one.coin == other.coin == coin(4, 2)


def test_a_temperature_sweep_draws_with_one_coin_and_is_what_each_temperature_gives_alone() -> None:
    logits = torch.randn(80, generator=torch.Generator().manual_seed(8))
    params = SamplingParams(top_p=0.9, seed=2)
    sweep = sweep_temperature(logits, params, temperatures=(0.0, 0.7, 1.5))
    for n, temperature in enumerate(sweep.temperatures):
        alone = sampling_of(logits, SamplingParams(top_p=0.9, seed=2, temperature=temperature))
        assert (sweep.winners[n], sweep.num_kept[n], sweep.coin) == (alone.token_id, alone.used.num_kept, alone.coin)
        assert np.array_equal(sweep.probs[n], alone.used.probs)
    assert sweep.num_kept[0] == 1
    assert sweep.num_kept[1] < sweep.num_kept[2]


def test_the_greedy_margin_is_the_distance_of_the_two_best_logits() -> None:
    margin = greedy_margin(np.array([1.0, 4.5, 2.0, 4.25], np.float32))
    assert (margin.best, margin.second, margin.difference) == (1, 3, 0.25)
    assert greedy_margin(np.array([2.0, 2.0], np.float32)).best == 0


def test_a_place_is_where_a_step_chose_its_token() -> None:
    run = finished_run()
    for meta in run.steps:
        place = place_of(run, meta.step)
        assert place is not None
        found = sampling_of(place.logits, place.params, place.prompt_ids, place.output_ids)
        assert (found.token_id, found.coin) == (meta.token_id, meta.coin) == (place.token_id, meta.coin)
    assert place_of(run, 0) is None
    assert place_of(run, len(run.steps) + 1) is None
    half = live_run(chunk=1)
    half.step()
    assert place_of(half, 1) is None


def test_a_taken_token_from_far_down_has_its_own_place_on_the_bar() -> None:
    """The panel shows 20 candidates and the taken one; drawn or forced, it lies where the bar has it."""
    logits = torch.linspace(2, 0, 100)
    trace = sampler_trace(logits, SamplingParams(**OFF), coin=0.9)  # type: ignore[arg-type]
    probs, far = trace.probs.double().numpy(), trace.token_id
    assert far > 20
    for chosen in (far, 60):
        found = next_token_of(trace, 1.0, lambda i: TokenInfo(i, str(i), b""), chosen=chosen, forced=chosen != far)
        assert found.tokens[-1].token_id == chosen
        assert (found.lo, found.hi) == pytest.approx((probs[:chosen].sum(), probs[: chosen + 1].sum()), abs=1e-6)
