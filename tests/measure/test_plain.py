"""Measurements as JSON and back: the same records, and nothing else is ever made of a text."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miniinfer.config import SamplingParams
from miniinfer.engine.backend import TORCH
from miniinfer.errors import BadInputError
from miniinfer.measure.backends import measure_backends
from miniinfer.measure.cache_off import measure_cache_off
from miniinfer.measure.curve import measure_curve
from miniinfer.measure.plain import KINDS, from_text, to_text
from miniinfer.measure.precision import measure_precision
from miniinfer.measure.progress import run_through
from miniinfer.measure.records import (
    CacheOff,
    Curve,
    LengthTime,
    OnOff,
    PrecisionComparison,
    PrecisionRun,
    PrecisionToken,
    TokenCost,
)
from miniinfer.measure.stage_times import measure_decode, measure_prefill
from tests.engine.tiny import tiny_model
from tests.measure.helpers import IDS, comparison, stats, step_times

PRECISION = PrecisionRun("float32", 4, 2, 1, None, 3.5, stats(2), 1.0, 0.0, 0.0, (PrecisionToken(7, 0.5, {7: 0.25}),))
RESULTS: dict[str, Any] = {
    "times": (step_times("prefill", 5), step_times()), "backends": comparison(),
    "curve": Curve((TokenCost(8, 4, 2, 1),), (LengthTime(8, stats(3), 1.5),)),
    "cache_off": CacheOff(5, (1, 2), (1, 3), 0.5, 0.25, (OnOff(8, stats(1), stats(2), 2.0, 0.1, 0.2),)),
    "precision": PrecisionComparison(5, 0.8, (PRECISION,), None),
}  # fmt: skip


@pytest.mark.parametrize("view", sorted(KINDS))
def test_a_result_comes_back_as_it_was(view: str) -> None:
    again = from_text(view, to_text(RESULTS[view]))
    assert again == RESULTS[view]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=6), x, max_size=3), max_leaves=5,
)  # fmt: skip


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(sorted(KINDS)), anything, st.integers(0, 600), st.text(max_size=3))
def test_damage_is_never_more_than_a_sentence(view: str, value: Any, at: int, put_in: str) -> None:
    whole = to_text(RESULTS[view])
    within = json.loads(whole)
    if isinstance(within, dict):
        within[sorted(within)[at % len(within)]] = value
    cut = whole[:at] + put_in + whole[at + 1 :]
    for text in (json.dumps(value), json.dumps(within), whole[:at], cut, "[" * 10_000):
        with suppress(BadInputError):
            found = from_text(view, text)
            assert from_text(view, to_text(found)) == found or "NaN" in text


def test_a_view_that_keeps_nothing() -> None:
    with pytest.raises(BadInputError, match="damaged"):
        from_text("calibration", "{}")


def test_what_is_really_measured_is_kept_whole() -> None:
    """Records made by hand hold plain numbers; those of a measurement must too."""
    model, params = tiny_model(), SamplingParams(temperature=0.7, max_new_tokens=4)
    measured = {
        "times": (
            run_through(measure_prefill(model, IDS, params, rounds=1)),
            run_through(measure_decode(model, IDS, 9, params, rounds=1)),
        ),
        "curve": run_through(measure_curve(model, IDS, (16, 40), rounds=1, warm_up=0)),
        "backends": run_through(
            measure_backends(model, IDS, 20, params, [TORCH, TORCH], rounds=1, warm_up=0, buffer_bytes=4096)
        ),
        "cache_off": run_through(measure_cache_off(model, IDS, prompt=7, tokens=2, lengths=(8,), rounds=1)),
        "precision": run_through(measure_precision({"a": model, "b": tiny_model()}, IDS, params, tokens=2)),
    }
    assert set(measured) == set(KINDS)
    for view, result in measured.items():
        assert from_text(view, to_text(result)) == result, view
