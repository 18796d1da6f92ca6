"""Breakpoints: they stop where their sentence is true, and masks and cuts are no accidents."""

from __future__ import annotations

import pytest
import torch

from miniinfer.config import SamplingParams
from miniinfer.engine.state import StepState
from miniinfer.errors import BadInputError
from miniinfer.faults.replace import replace_stage, wrap_stage
from miniinfer.trace.inside.breakpoints import AtStage, NormJump, NotFinite
from miniinfer.trace.inside.inside import StepInside
from miniinfer.trace.live_run import LiveRun
from tests.trace.live import live_run


def with_fault(name: str, layer: int, change: object) -> LiveRun:
    """A run of which one stage of one layer is changed after the first step was made."""
    run = live_run(SamplingParams(temperature=0.7, top_k=5, max_new_tokens=12))
    run.step()
    ok = next(s for s in run.engine.program if (s.name, s.layer) == (name, layer))

    def fn(engine: object, state: StepState) -> None:
        ok.fn(engine, state)  # type: ignore[arg-type]
        change(state)  # type: ignore[operator]

    run.engine.program = replace_stage(run.engine.program, name, fn, layers=[layer])
    return run


def poison(state: StepState) -> None:
    state.z = state.z.clone()
    state.z[0, 2, 3] = float("nan")
    state.z[0, 2, 4] = float("inf")


def test_a_healthy_step_runs_to_its_end_although_masks_and_cuts_are_infinite() -> None:
    run = live_run(SamplingParams(temperature=0.7, top_k=5, max_new_tokens=12))
    run.step()
    inside = StepInside(run, 1)
    assert inside.run_on([NotFinite()]) is None
    assert inside.pc == len(inside.program)
    inside.goto(8)
    look = inside.look()
    assert look is not None
    facts = look.field("writes", "attn_scores").facts  # type: ignore[union-attr]
    assert facts is not None
    assert (facts.num_nan, facts.num_inf, facts.num_hidden) == (0, 0, 10 * 7 * 6 // 2)
    inside.goto(42)
    facts = inside.look().field("writes", "logits").facts  # type: ignore[union-attr]
    assert facts.num_hidden == 67 - 5  # type: ignore[union-attr]
    inside.close()


def test_it_stops_at_the_first_value_that_is_not_finite() -> None:
    run = with_fault("attn_mix", 1, poison)
    inside = StepInside(run, 2)
    hit = inside.run_on([NotFinite()])
    assert hit is not None
    assert (hit.stage, hit.layer, hit.pc) == ("attn_mix", 1, inside.pc)
    assert hit.why == "z holds 1 NaN and 1 infinite values"
    facts = inside.look().field("writes", "z").facts  # type: ignore[union-attr]
    assert (facts.num_nan, facts.num_inf) == (1, 1)  # type: ignore[union-attr]
    assert torch.isfinite(torch.tensor(facts.norm))  # type: ignore[union-attr]
    inside.close()


def test_a_score_that_became_infinite_by_accident_is_found_among_the_masked_ones() -> None:
    def cut(state: StepState) -> None:
        scores = state.attn_scores[0].clone()
        scores[0, 0, 0, -1, 0] = float("-inf")  # the newest row may look at everything
        state.attn_scores = (scores,)

    inside = StepInside(with_fault("attn_scores", 2, cut), 1)
    hit = inside.run_on([NotFinite()])
    assert hit is not None
    assert (hit.stage, hit.layer) == ("attn_scores", 2)
    inside.close()


def test_it_stops_where_a_norm_jumps() -> None:
    def grow(state: StepState) -> None:
        state.resid_post = state.resid_post.clone()
        state.resid_post[4] *= 100

    inside = StepInside(with_fault("mlp_out", 1, grow), 1)
    hit = inside.run_on([NormJump(20, "resid_post", row=None)])
    assert hit is not None
    assert (hit.stage, hit.layer) == ("mlp_out", 1)
    assert "at position 4 went from" in hit.why
    before, after = (inside.norms[(place, "resid_post")][4] for place in (13, 24))
    assert after / before > 20
    inside.goto(3)
    assert inside.run_on([NormJump(20, "resid_post", row=3)]) is None
    inside.goto(24)
    hit = inside.run_on([NormJump(20, "attn_out"), NormJump(20, "resid_post", row=4)])
    assert hit is not None
    assert hit.pc == 25  # from the middle of the program, with what was seen before
    inside.close()


def test_any_tensor_may_jump_and_down_counts_too() -> None:
    def shrink(state: StepState) -> None:
        state.v = state.v / 1000

    inside = StepInside(with_fault("qkv_proj", 2, shrink), 1)
    hit = inside.run_on([NormJump(100, None)])
    assert hit is not None
    assert (hit.stage, hit.layer) == ("qkv_proj", 2)
    assert "norm of v" in hit.why
    inside.close()


def test_from_nothing_to_something_is_a_jump_and_nothing_twice_is_none() -> None:
    def empty(state: StepState) -> None:
        state.mlp_out = torch.zeros_like(state.mlp_out)

    run = with_fault("mlp_out", 0, empty)
    inside = StepInside(run, 1)
    hit = inside.run_on([NormJump(1e30, "mlp_out")])
    assert hit is not None
    assert (hit.stage, hit.layer) == ("mlp_out", 1)
    assert "went from 0 to" in hit.why
    inside.close()
    run.engine.program = wrap_stage(run.engine.program, "mlp_out", lambda fn: lambda e, s: (fn(e, s), empty(s))[0])
    inside = StepInside(run, 1)
    assert inside.run_on([NormJump(1e30, "mlp_out")]) is None
    inside.close()


def test_it_runs_to_a_stage() -> None:
    run = live_run()
    inside = StepInside(run, 1)
    assert inside.run_on([AtStage("rope")]).pc == 6  # type: ignore[union-attr]
    assert inside.run_on([AtStage("rope")]).pc == 17  # type: ignore[union-attr]
    assert inside.run_on([AtStage("rope", 0)]) is None
    inside.close()


@pytest.mark.parametrize("factor", [1, 0.5, 0, -2, float("nan")])
def test_a_factor_that_is_no_jump_is_refused(factor: float) -> None:
    with pytest.raises(BadInputError, match="above 1"):
        NormJump(factor)
