"""What each stage says about itself is true, and the readable program changes nothing in place (law 1)."""

from __future__ import annotations

import dataclasses
import inspect

import pytest
import torch

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine import lookup
from miniinfer.engine.padding import padded_program
from miniinfer.engine.program import KV_CACHE, SEQUENCES, SHAPES, build_program
from miniinfer.engine.sampler import sampler_trace
from miniinfer.engine.stage import Stage
from miniinfer.engine.state import StepState
from tests.engine.helpers import GREEDY, PROMPTS, tiny_engine
from tests.engine.tiny import TINY

NAMES = (
    "attn_norm", "qkv_proj", "rope", "write_kv", "attn_scores", "attn_pattern", "attn_mix", "attn_out",
    "mlp_norm", "mlp_hidden", "mlp_out",
)  # fmt: skip
FIELDS = {field.name for field in dataclasses.fields(StepState)} - {"pc", "stage"}
TENSOR_FIELDS = tuple(name for name in SHAPES if name not in ("coins", "token_ids"))


def mixed_engine():
    """An engine whose next step mixes two decodes of unequal length with two chunks, one of which samples nothing."""
    engine = tiny_engine()
    params = SamplingParams(top_k=20, top_p=0.9, repetition_penalty=1.2, presence_penalty=0.1, min_p=0.01)
    engine.add_request(PROMPTS[0], params)
    engine.add_request(PROMPTS[1], GREEDY)
    engine.step()
    engine.add_request(PROMPTS[2], params)
    engine.add_request(PROMPTS[4], params, prefill_chunk=3)
    return engine


def static_engine():
    """An engine whose next step is a padded chunk, in which one row is nothing but padding, of the same 16 slots."""
    engine = tiny_engine(EngineConfig(block_size=4, pool_chunk_blocks=3, max_num_batched_tokens=20, batching="static"))
    params = SamplingParams(top_k=20, top_p=0.9, repetition_penalty=1.2)
    for prompt in (PROMPTS[0], PROMPTS[1], PROMPTS[2], PROMPTS[4]):
        engine.add_request(prompt, params)
    engine.step()
    return engine


@pytest.fixture(params=[mixed_engine, static_engine])
def engine(request: pytest.FixtureRequest):
    return request.param()


def tensors_of(state: StepState) -> dict[str, list[torch.Tensor]]:
    found = {name: getattr(state, name) for name in FIELDS}
    found = {name: list(value) if isinstance(value, tuple) else [value] for name, value in found.items()}
    return {
        name: [part for part in value if isinstance(part, torch.Tensor)]
        for name, value in found.items()
        if any(isinstance(part, torch.Tensor) for part in value)
    }


def test_the_program_has_the_stages_of_the_design_in_order() -> None:
    names = [(stage.name, stage.layer) for stage in build_program(TINY)]
    assert names == [
        ("schedule", None), ("prepare_inputs", None), ("embed", None),
        *((name, layer) for layer in range(TINY.num_layers) for name in NAMES),
        ("final_norm", None), ("unembed", None), *((f"processor_{i}", None) for i in range(1, 7)),
        ("softmax", None), ("sample", None), ("commit", None),
    ]  # fmt: skip


PADDED = tuple(s for s in padded_program(TINY)[:20] if s.name in ("prepare_inputs", "write_kv"))


@pytest.mark.parametrize("stage", build_program(TINY)[:20] + build_program(TINY)[-11:] + PADDED, ids=lambda s: s.name)
def test_a_stage_is_a_plain_function_with_one_sentence(stage: Stage) -> None:
    assert inspect.isfunction(stage.fn)
    source = inspect.getsource(stage.fn)
    assert source.startswith(f"def {stage.fn.__name__}(engine: Engine, state: StepState) -> None:")
    assert source.count("\n") <= 25, "one stage is one small function"
    assert stage.sentence.endswith(".")
    assert ". " not in stage.sentence
    assert stage.formula
    assert "\n" not in stage.formula, "one line of mathematics"
    assert all(stage.formula.count(a) == stage.formula.count(b) for a, b in ("{}", "()", "[]"))
    assert set(stage.reads) | set(stage.writes) <= FIELDS | {KV_CACHE, SEQUENCES}
    assert set(stage.shapes) == (set(stage.reads) | set(stage.writes)) & set(SHAPES)


def test_every_tensor_has_the_shape_that_its_stage_states() -> None:
    engine = mixed_engine()
    sizes = {"H": 10, "K": 2, "D": 8, "G": 5, "E": 28, "F": 44, "V": 67, "T": 16, "R": 3, "1": 1}
    seen = set()

    def check(stage: Stage, state: StepState) -> None:
        assert not state.scheduled or sum(entry.num_tokens for entry in state.scheduled) == sizes["T"]
        for name in set(stage.shapes) & set(stage.writes):
            seen.add(name)
            value = getattr(state, name)
            if name in ("coins", "token_ids"):
                assert len(value) == sizes["R"]
            elif isinstance(value, tuple):
                for part, group in zip(value, state.groups, strict=True):
                    of_group = {"S": group.num_seqs, "Tq": group.num_rows, "C": group.context_len}
                    assert list(part.shape) == [(sizes | of_group)[letter] for letter in stage.shapes[name].split()]
            else:
                assert list(value.shape) == [sizes[letter] for letter in stage.shapes[name].split()], name

    engine.step(check)
    assert seen == set(SHAPES)


def test_a_stage_writes_what_it_says_and_nothing_in_place(engine) -> None:
    state = engine.begin_step()
    while state.pc < len(engine.program):
        before = {name: getattr(state, name) for name in FIELDS}
        copies = {name: [part.clone() for part in parts] for name, parts in tensors_of(state).items()}
        parts = tensors_of(state)
        cache = engine.kv_cache.data.clone()
        stage = engine.program[state.pc]
        engine.advance(state, until=state.pc + 1)
        rebound = {name for name in FIELDS if getattr(state, name) is not before[name]}
        assert rebound <= set(stage.writes), stage.name
        for name, kept in copies.items():
            for part, copy in zip(parts[name], kept, strict=True):
                assert torch.equal(part.nan_to_num(), copy.nan_to_num()), f"{stage.name} changed {name} in place"
        if stage.name != "write_kv":
            assert torch.equal(cache, engine.kv_cache.data), f"{stage.name} wrote into the cache"


class Spy(StepState):
    """A state that notes which of its fields are read."""

    def __getattribute__(self, name: str):
        if name in FIELDS:
            object.__getattribute__(self, "__dict__").setdefault("_read", set()).add(name)
        return object.__getattribute__(self, name)


def test_a_stage_reads_what_it_says(engine) -> None:
    state = engine.begin_step()
    spy = Spy()
    for stage in engine.program:
        spy.__dict__ |= state.__dict__
        spy.__dict__["_read"] = set()
        spy.stage = stage
        with torch.inference_mode():  # as the driver runs it: the cache was written so before
            stage.fn(engine, spy)
        read = spy.__dict__["_read"]
        allowed = set(stage.reads) | set(stage.writes)
        assert read <= allowed, f"{stage.name} reads {read - allowed}"
        state.__dict__ |= {name: value for name, value in spy.__dict__.items() if name != "_read"}


def test_the_residual_stream_adds_up() -> None:
    engine = mixed_engine()
    last = {}

    def check(stage: Stage, state: StepState) -> None:
        if stage.name == "attn_norm" and stage.layer:
            assert torch.equal(state.resid_pre, last["resid_post"])
        if stage.name == "attn_out":
            assert torch.equal(state.resid_pre + state.attn_out, state.resid_mid)
        if stage.name == "mlp_out":
            assert torch.equal(state.resid_mid + state.mlp_out, state.resid_post)
            last["resid_post"] = state.resid_post
        if stage.name == "attn_pattern":
            for group, pattern, scores in zip(state.groups, state.attn_pattern, state.attn_scores, strict=True):
                torch.testing.assert_close(pattern.sum(-1), torch.ones(pattern.shape[:-1]))
                if group.hidden is not None:
                    assert (pattern.masked_select(group.hidden.expand_as(pattern)) == 0).all()
                    assert scores.masked_select(group.hidden.expand_as(scores)).isneginf().all()

    engine.step(check)


def test_only_sampled_rows_meet_the_vocabulary() -> None:
    engine = tiny_engine()
    engine.add_request(range(20), GREEDY, prefill_chunk=8)
    shapes = []
    while state := engine.step():
        shapes.append((tuple(state.final_norm_out.shape), tuple(state.raw_logits.shape), state.token_ids[:1]))
    assert [shape[:2] for shape in shapes[:3]] == [((8, 28), (0, 67)), ((8, 28), (0, 67)), ((4, 28), (1, 67))]
    assert [len(shape[2]) for shape in shapes[:3]] == [0, 0, 1]


def test_nothing_is_made_on_the_default_device() -> None:
    """Every new tensor says where it belongs: with a default device that holds no numbers, all still works."""
    expected = mixed_engine()
    while expected.step():
        pass
    engine = mixed_engine()
    with torch.device("meta"):
        engine.fork(engine.sequences["seq-1"], 2, force=5)
        while state := engine.step():
            lookup.attention_rows(engine, state.scheduled[0].seq, 1, state.q[:1], state.scheduled[0].start)
            lookup.logits_of(engine, state.final_norm_out)
            for logits in state.raw_logits:
                sampler_trace(logits, SamplingParams(repetition_penalty=1.1, frequency_penalty=0.1), [1], [2, 2])
    for name, seq in expected.sequences.items():
        assert engine.sequences[name].token_ids == seq.token_ids
