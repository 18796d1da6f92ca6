"""A replaced stage changes what it claims, from where it claims, and leaves the healthy engine alone."""

import pytest

from miniinfer.config import SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.errors import BadInputError
from miniinfer.faults.replace import replace_stage
from miniinfer.trace.capture import StageCapture
from miniinfer.trace.compare import compare_stages
from tests.engine.tiny import tiny_model


def step(model, program=None):
    engine = Engine(model, program=program)
    engine.add_request([3, 1, 4, 1, 5], SamplingParams(max_new_tokens=1))
    capture = StageCapture()
    engine.step(capture)
    return engine, capture


def halved(engine, state):
    healthy = {s.layer: s.fn for s in Engine(engine.model).program if s.name == "mlp_out"}
    healthy[state.layer](engine, state)
    state.mlp_out = state.mlp_out * 0.5
    state.resid_post = state.resid_mid + state.mlp_out


def test_the_first_difference_is_the_replaced_stage():
    model = tiny_model()
    engine, healthy = step(model)
    broken_program = replace_stage(engine.program, "mlp_out", halved, layers=[1])
    _, broken = step(model, broken_program)
    found = compare_stages(healthy.tensors, broken.tensors)
    assert found.first is not None
    assert (found.first.stage, found.first.layer, found.first.name) == ("mlp_out", 1, "mlp_out")
    assert found.largest is not None
    assert found.largest.largest >= found.first.largest
    _, again = step(model)
    assert compare_stages(healthy.tensors, again.tensors, tolerance=0).first is None


def test_a_capture_stays_within_its_budget_and_names_what_it_dropped():
    model = tiny_model()
    engine = Engine(model)
    engine.add_request([3, 1, 4, 1, 5], SamplingParams(max_new_tokens=1))
    capture = StageCapture(limit_bytes=4000)
    engine.step(capture)
    assert 0 < sum(t.values.nbytes for t in capture.tensors) <= 4000
    assert capture.dropped


def test_a_stage_that_does_not_exist_is_named():
    program = Engine(tiny_model()).program
    with pytest.raises(BadInputError, match="attn_scores"):
        replace_stage(program, "attention", halved)
