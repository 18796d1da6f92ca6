"""Each logits processor on examples that can be checked by hand (cases SMP-*)."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from miniinfer.config import SamplingParams
from miniinfer.engine import logits as processors
from miniinfer.engine.logits import process
from miniinfer.engine.sampler import probabilities, sampler_trace
from miniinfer.errors import BadInputError, NotFiniteError

INF = math.inf


def row(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)


def used(logits: Tensor, **settings) -> list[float]:
    return sampler_trace(logits, SamplingParams(**({"temperature": 1.0, "top_p": 1.0} | settings))).probs.tolist()


def test_repetition_looks_at_the_sign() -> None:
    """SMP-06: divide above 0, multiply below, once for each id however often it was seen."""
    before = row(2, -2, 1, 0)
    once = processors.repetition(before, 1.5, [0, 1])
    torch.testing.assert_close(once, row(4 / 3, -3, 1, 0))
    torch.testing.assert_close(torch.softmax(once, 0), row(0.5017, 0.0066, 0.3595, 0.1322), atol=5e-5, rtol=0)
    assert torch.equal(processors.repetition(before, 1.5, [0, 1, 0, 0]), once)
    assert processors.repetition(before, 1.0, [0, 1]) is before
    assert before.tolist() == [2, -2, 1, 0]
    assert processors.repetition(row(-INF, 1), 2.0, [0, 1]).tolist() == [-INF, 0.5]


def test_repetition_counts_prompt_and_output_presence_and_frequency_only_output() -> None:
    params = SamplingParams(repetition_penalty=2.0, presence_penalty=0.5, frequency_penalty=0.25)
    before = row(4, 4, 4, 4)
    assert process("repetition", before, params, [0], [1]).tolist() == [2, 2, 4, 4]
    assert process("presence_frequency", before, params, [0], [1, 2, 2]).tolist() == [4, 3.25, 3, 4]
    assert process("presence_frequency", before, params, [0], []) is before


def test_temperature() -> None:
    assert processors.temperature(row(2, -4), 0.5).tolist() == [4, -8]
    before = row(2, -4)
    assert processors.temperature(before, 1.0) is before
    assert processors.temperature(before, 0.0) is before


@pytest.mark.parametrize("value", [1e-4, 1e-30, 1e-38, 5e-324])
def test_a_tiny_temperature_takes_the_best(value: float) -> None:
    """SMP-02: no overflow, no NaN."""
    assert used(row(20, 19.5, -INF), temperature=value) == [1, 0, 0]
    assert used(row(-20, -19.5), temperature=value) == [0, 1]


@pytest.mark.parametrize("value", [1e30, 1.7e308])
def test_a_huge_temperature_makes_all_equal_but_for_what_is_cut(value: float) -> None:
    order = ("top_k", "temperature")
    assert used(row(3, 2, 1), temperature=value, top_k=2, order=order) == [0.5, 0.5, 0]


def test_large_logits() -> None:
    assert used(row(1000, 0)) == [1, 0]


def test_half_precision_is_computed_in_float32() -> None:
    """SMP-02: divided in float16, these would overflow to infinity and then NaN."""
    half = row(20, 19.5).half()
    assert (half / 1e-4).isinf().all()
    assert used(half, temperature=1e-4) == [1, 0]
    assert used(row(20, 19.5).bfloat16(), temperature=1e-4) == [1, 0]


def test_top_p_of_almost_nothing_keeps_the_best_and_of_nothing_is_refused() -> None:
    """SMP-02"""
    logits = row(*map(math.log, (0.5, 0.3, 0.15, 0.05)))
    assert used(logits, top_p=1e-30) == [1, 0, 0, 0]
    with pytest.raises(BadInputError, match="top_p must be above 0"):
        used(logits, top_p=0.0)


@pytest.mark.parametrize(("k", "kept"), [(0, 5), (1, 1), (2, 2), (4, 4), (5, 5), (50, 5)])
def test_top_k(k: int, kept: int) -> None:
    """SMP-04: above the vocabulary it is a no-op."""
    before = row(0.1, 0.5, 0.3, 0.2, 0.4)
    after = processors.top_k(before, k)
    assert int(after.isfinite().sum()) == kept
    assert (after is before) == (kept == 5)
    best = before.topk(kept).indices
    assert torch.equal(after[best], before[best])


def test_top_k_keeps_exactly_k_of_equals_the_lowest_ids() -> None:
    assert processors.top_k(row(1, 3, 2, 2, 2), 3).tolist() == [-INF, 3, 2, 2, -INF]
    assert processors.top_k(row(*[1.0] * 6), 2).tolist() == [1, 1, -INF, -INF, -INF, -INF]
    assert processors.top_k(row(-INF, 1, -INF, -INF), 2).tolist() == [-INF, 1, -INF, -INF]


@pytest.mark.parametrize(
    ("p", "kept"), [(1e-9, [0]), (0.5, [0]), (0.51, [0, 1]), (0.79, [0, 1]), (0.81, [0, 1, 2]), (0.96, [0, 1, 2, 3])]
)
def test_top_p_keeps_the_smallest_set_that_reaches_it(p: float, kept: list[int]) -> None:
    before = row(*map(math.log, (0.5000001, 0.3, 0.15, 0.05)))
    assert processors.top_p(before, p).isfinite().nonzero().flatten().tolist() == kept


def test_top_p_of_equals_keeps_the_lowest_ids() -> None:
    assert processors.top_p(row(0, 5, 5, 5, 5), 0.45).tolist() == [-INF, 5, 5, -INF, -INF]


def test_top_p_one_is_off_and_nearly_one_keeps_nearly_all() -> None:
    before = torch.randn(500, generator=torch.Generator().manual_seed(0))
    assert processors.top_p(before, 1.0) is before
    assert processors.top_p(before, 1 - 1e-15).isfinite().sum() >= 499


@pytest.mark.parametrize("spread", [0.0, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("p", [0.05, 0.5, 0.9, 0.95, 0.999])
def test_top_p_in_windows_equals_sorting_everything(spread: float, p: float, monkeypatch) -> None:
    logits = spread * torch.randn(5000, generator=torch.Generator().manual_seed(1)).round(decimals=2)
    quick = processors.top_p(logits, p)
    monkeypatch.setattr(processors, "FIRST_WINDOWS", (math.inf,))
    assert torch.equal(processors.top_p(logits, p), quick)
    order = logits.double().argsort(descending=True, stable=True)
    probs = torch.softmax(logits.double(), 0)[order]
    num_kept = int(((probs.cumsum(0) - probs) < p).sum())
    assert abs(int(quick.isfinite().sum()) - num_kept) <= 1, "p may fall on a sum to the last bit"
    found = quick.isfinite().nonzero().flatten()
    assert torch.equal(found, order[: len(found)].sort().values)


def test_top_p_ends_a_long_tail_where_the_sum_says() -> None:
    """A total that is rounded to float32 (logits around 20 are known to 2e-6) ends it several tokens off."""
    logits = 20 + 2 * torch.randn(49_152, generator=torch.Generator().manual_seed(2))
    probs = torch.softmax(logits.double(), 0).sort(descending=True).values
    for p in (0.99, 0.995, 0.999, 0.9999):
        num_kept = int((probs.cumsum(0) < p).sum()) + 1
        assert abs(int(processors.top_p(logits, p).isfinite().sum()) - num_kept) <= 1


def test_min_p() -> None:
    before = row(*map(math.log, (0.5, 0.3, 0.15, 0.05)))
    assert processors.min_p(before, 0.2).isfinite().tolist() == [True, True, True, False]
    assert processors.min_p(before, 0.0) is before
    assert processors.min_p(before, 0.999).isfinite().tolist() == [True, False, False, False]


def test_the_order_of_the_stages_matters() -> None:
    """SMP-05: temperature before the filters is the default; after them others survive."""
    last = ("repetition", "presence_frequency", "top_k", "top_p", "min_p", "temperature")
    logits = row(3, 2, 1)
    assert used(logits, temperature=0.5, top_p=0.8) == [1, 0, 0]
    assert used(logits, temperature=0.5, top_p=0.8, order=last) == pytest.approx([0.8808, 0.1192, 0], abs=5e-5)
    logits = row(*map(math.log, (0.5, 0.3, 0.15, 0.05)))
    first = used(logits, temperature=2, min_p=0.2)
    assert first == pytest.approx([0.3790, 0.2936, 0.2076, 0.1198], abs=5e-5)
    assert used(logits, temperature=2, min_p=0.2, order=last) == pytest.approx([0.4306, 0.3335, 0.2359, 0], abs=5e-5)


def test_an_order_may_leave_stages_out() -> None:
    trace = sampler_trace(row(3, 2, 1), SamplingParams(temperature=0.5, top_k=1, order=("temperature",)))
    assert [stage.name for stage in trace.stages] == ["temperature"]
    assert (trace.probs > 0).all()


def test_greedy_is_the_best_token_whatever_the_filters() -> None:
    """SMP-01: probabilities [0, 1, 0, 0], the lowest id of equals, any seed."""
    for seed in range(5):
        params = SamplingParams(temperature=0, top_p=0.9, top_k=50, min_p=0.5, seed=seed)
        trace = sampler_trace(row(2, 5, 5, 1), params)
        assert trace.probs.tolist() == [0, 1, 0, 0]
        assert (trace.token_id, trace.lo, trace.hi) == (1, 0, 1)
        assert (trace.cut_by == -1).all()
        assert all(torch.equal(stage.logits, row(2, 5, 5, 1)) for stage in trace.stages)


def test_greedy_obeys_penalties() -> None:
    """They change which token is the best; the filters could only cut others."""
    params = SamplingParams(temperature=0, repetition_penalty=2.0)
    assert sampler_trace(row(2, 5, 4), params, prompt_ids=[1]).token_id == 2


@pytest.mark.parametrize("bad", [row(1, math.nan, 2), row(-INF, -INF), row(1, INF)])
def test_a_row_without_an_answer_is_an_error(bad: Tensor) -> None:
    """SMP-02: never a uniform draw in its place."""
    with pytest.raises(NotFiniteError, match="The model's logits are not usable"):
        sampler_trace(bad, SamplingParams())
    assert list(processors.not_finite_rows(torch.stack((torch.zeros_like(bad), bad)), processors.RAW)) == [1]
    assert processors.not_finite_rows(torch.zeros(0, 5), processors.RAW) == {}


def test_settings_that_leave_no_number_are_an_error_too() -> None:
    with pytest.raises(NotFiniteError, match="that the processors left are not usable"):
        sampler_trace(row(1, 2), SamplingParams(presence_penalty=-1e308, frequency_penalty=-1e308), output_ids=[0])


@pytest.mark.parametrize("greedy", [True, False])
def test_probabilities_sum_to_one(greedy: bool) -> None:
    logits = torch.randn(1000, generator=torch.Generator().manual_seed(2))
    probs = probabilities(logits, SamplingParams(temperature=0 if greedy else 1))
    assert probs.sum().item() == pytest.approx(1, abs=1e-5)
