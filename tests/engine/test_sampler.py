"""The coin and the draw: 100,000 of them, and the edges of each interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from miniinfer.config import SamplingParams
from miniinfer.engine.sampler import coin, draw, falling_order, land, logprob, philox, sampler_trace
from miniinfer.errors import BadInputError
from miniinfer.trace.sampling.draws import draw_many
from miniinfer.trace.sampling.sampling import sampling_of
from tests.engine.helpers import PROMPT, logits_by_seq, run_all, tiny_engine


@pytest.mark.parametrize("key", [0, 7, 2**32 + 5, 2**64 - 1])
@pytest.mark.parametrize("counter", [0, 1, 1000, 2**63, 2**64 - 1, 2**64])
def test_philox_is_numpys(key: int, counter: int) -> None:
    assert philox(key, counter + 1) == int(np.random.Philox(key=key, counter=counter).random_raw())


def test_a_coin_is_a_function_of_seed_and_index() -> None:
    """Pinned, so that a recorded run can be repeated by any later version."""
    assert coin(0, 0) == coin(0, 0) == 0.011546754286331562
    assert coin(0, 1) == 0.5023796042735054
    assert coin(7, 1000) == 0.23190574451996193
    assert coin(2**64 - 1, 0) != coin(0, 0)
    assert len({coin(seed, index) for seed in range(30) for index in range(30)}) == 900


def test_coins_are_uniform() -> None:
    coins = np.array([coin(3, index) for index in range(20_000)])
    assert coins.min() >= 0
    assert coins.max() < 1
    counts = np.histogram(coins, bins=50, range=(0, 1))[0]
    chi_square = ((counts - 400) ** 2 / 400).sum()
    assert chi_square < 49 + 5 * math.sqrt(2 * 49)
    assert abs(np.corrcoef(coins[:-1], coins[1:])[0, 1]) < 0.03


def test_tokens_stand_in_order_of_falling_probability_lowest_id_first() -> None:
    probs = torch.tensor([0.125, 0.25, 0.0, 0.25, 0.375])
    bar = [(4, 0, 0.375), (1, 0.375, 0.625), (3, 0.625, 0.875), (0, 0.875, 1.0)]
    for token_id, lo, hi in bar:
        for inside in (lo, (lo + hi) / 2, np.nextafter(hi, 0)):
            assert land(probs, float(inside)) == (token_id, lo, hi)


def test_100_000_draws_follow_the_distribution() -> None:
    logits = 2 * torch.randn(300, generator=torch.Generator().manual_seed(5))
    params = SamplingParams(temperature=0.9, top_p=0.9, top_k=40, min_p=0.01)
    trace = sampler_trace(logits, params)
    counts = np.zeros(300)
    for index in range(100_000):
        counts[draw(trace.probs, coin(11, index))] += 1
    expected = trace.probs.double().numpy() * 100_000
    assert (counts[expected == 0] == 0).all()
    kept = expected > 0
    chi_square = ((counts[kept] - expected[kept]) ** 2 / expected[kept]).sum()
    freedom = kept.sum() - 1
    assert freedom > 10
    assert chi_square < freedom + 5 * math.sqrt(2 * freedom)


def test_a_token_of_probability_zero_is_never_drawn() -> None:
    """SMP-08"""
    probs = torch.tensor([0.0, 1.0, 0.0])
    assert {draw(probs, c) for c in (0.0, 0.5, np.nextafter(1.0, 0.0))} == {1}
    short = torch.tensor([0.3, 0.0, 0.2])  # a sum below 1, as rounding can give
    assert {draw(short, c) for c in np.linspace(0, np.nextafter(1.0, 0.0), 101)} == {0, 2}


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 1e-45, 1e-30, 0.001, 0.25, 0.25, 0.5, 3.0]), min_size=1, max_size=40),
    st.floats(0, 1, exclude_max=True),
)
def test_the_order_is_that_of_a_stable_sort_and_the_coin_lands_inside(weights: list[float], toss: float) -> None:
    probs = torch.tensor(weights)
    expected = [i for i in np.argsort(-probs.numpy(), kind="stable") if probs[i] > 0]
    assert falling_order(probs).tolist() == expected
    if expected:
        token_id, lo, hi = land(probs, toss)
        assert probs[token_id] > 0
        assert lo - 1e-12 <= toss <= hi + 1e-12
        before = probs[expected[: expected.index(token_id)]].double().sum() / probs.double().sum()
        assert lo == pytest.approx(before.item(), abs=1e-12)


def test_the_trace_is_what_the_engine_did() -> None:
    engine = tiny_engine()
    params = SamplingParams(temperature=1.3, top_k=30, top_p=0.9, repetition_penalty=1.3, seed=9, max_new_tokens=12)
    seq = engine.add_request(PROMPT, params)
    states = run_all(engine)
    for n, (state, raw) in enumerate(zip(states, logits_by_seq(states)[seq.seq_id], strict=True)):
        trace = sampler_trace(raw, params, PROMPT, seq.output_ids[:n])
        assert (trace.token_id, trace.coin) == (seq.output_ids[n], coin(9, n)) == (state.token_ids[0], state.coins[0])
        assert torch.equal(trace.probs, state.probs[0])
        assert torch.equal(trace.stages[-1].logits, state.logits[0])
        assert trace.lo <= trace.coin < trace.hi
    assert len(set(seq.output_ids)) > 4


@pytest.mark.parametrize(
    ("logits", "ids", "toss"),
    [([[1.0, 2.0]], [], None), ([], [], None), ([1.0, 2.0], [2], None), ([1.0, 2.0], [-1], None), ([1.0, 2.0], [], 1.0),
     ([1.0, 2.0], [], -0.1), ([1.0, 2.0], [], math.nan)],
)  # fmt: skip
def test_what_is_no_row_no_id_and_no_coin_is_refused(logits: list, ids: list[int], toss: float | None) -> None:
    with pytest.raises(BadInputError):
        sampler_trace(torch.tensor(logits), SamplingParams(repetition_penalty=1.1), ids, coin=toss)


def test_the_trace_says_who_was_cut_by_what_and_how_all_rank() -> None:
    logits = torch.tensor([0.0, 4.0, 3.0, 2.0, 1.0, 3.5])
    params = SamplingParams(temperature=1, top_k=4, top_p=0.9, order=("top_k", "top_p"))
    trace = sampler_trace(logits, params, coin=0.5)
    assert trace.cut_by.tolist() == [0, -1, -1, 1, 0, -1]
    assert trace.order.tolist() == [1, 5, 2, 3, 4, 0]
    assert trace.coin == 0.5
    assert trace.hi - trace.lo == pytest.approx(trace.probs[trace.token_id].item())
    assert trace.raw_probs.sum().item() == pytest.approx(1)
    bar = trace.probs[trace.order].double().cumsum(0)
    place = trace.order.tolist().index(trace.token_id)
    assert trace.hi == pytest.approx(bar[place].item())


def test_a_million_draws_never_give_the_token_of_probability_zero() -> None:
    """SMP-08, through the draw that many coins at once go through."""
    sampling = sampling_of(torch.tensor([-math.inf, 0.0]), SamplingParams(temperature=1.0, top_p=1.0), coin=0.5)
    assert sampling.used.probs.tolist() == [0, 1]
    coins = np.random.default_rng(0).random(1_000_000)
    assert draw_many(sampling, coins).counts.tolist() == [0, 1_000_000]


def test_logprob_is_the_natural_logarithm_of_the_used_probability() -> None:
    probs = torch.tensor([0.25, 0.75])
    assert logprob(probs, 0) == pytest.approx(math.log(0.25))
    assert logprob(torch.tensor([0.0, 1.0]), 1) == 0.0


def test_greedy_tosses_its_coin_too() -> None:
    engine = tiny_engine()
    engine.add_request(PROMPT, SamplingParams(temperature=0, seed=4, max_new_tokens=3))
    assert [state.coins for state in run_all(engine)] == [(coin(4, 0),), (coin(4, 1),), (coin(4, 2),)]
