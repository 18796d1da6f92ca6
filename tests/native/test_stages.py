"""Every stage of the core against its torch twin, on the same state, and the laws that hold for both programs."""

from __future__ import annotations

import dataclasses
import inspect

import pytest
import torch

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.backend import TORCH
from miniinfer.engine.engine import Engine
from miniinfer.engine.program import build_program
from miniinfer.engine.state import StepState
from miniinfer.native.backend import NativeBackend
from miniinfer.native.products import NativeLinear
from miniinfer.native.stages import TWINS, native_program
from tests.engine.tiny import TINY, tiny_model

DTYPES = [torch.float32, torch.bfloat16]
# bfloat16 has 8 bits, and a twin of torch may round twice where the core rounds once.
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
PARAMS = SamplingParams(temperature=0.7, seed=5, max_new_tokens=12)
WIDE = dataclasses.replace(TINY, head_dim=32, hidden_size=64, intermediate_size=96, num_heads=12, num_kv_heads=3)
PROMPTS = {
    "one": [[5, 6, 7, 8, 9]],
    "three": [[5, 6, 7, 8, 9], list(range(10, 43)), [1, 2]],
    "nine": [[i] * i for i in range(1, 10)],  # more rows than a step's memory is laid out for
}


def decoding(model, backend: NativeBackend, prompts: list[list[int]], block_size: int = 4) -> Engine:
    """An engine in which all sequences stand before a decode step, with blocks that do not lie in order."""
    engine = Engine(model, EngineConfig(block_size=block_size, pool_chunk_blocks=3), backend=backend)
    seqs = [engine.add_request(ids, PARAMS) for ids in prompts]
    while any(seq.num_output_tokens == 0 for seq in seqs):
        engine.step()
    return engine


@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "bfloat16"])
@pytest.mark.parametrize("config", [TINY, WIDE], ids=["odd sizes", "whole vectors"])
@pytest.mark.parametrize("name", PROMPTS)
def test_each_stage_writes_what_its_twin_writes(name: str, config, dtype, backend: NativeBackend) -> None:
    model = tiny_model(config=config, dtype=dtype)
    engine = decoding(model, backend, PROMPTS[name])
    torch_program = build_program(config)
    seen = set()
    for _ in range(3):
        state = engine.begin_step()
        while state.pc < len(engine.program):
            stage, twin = engine.program[state.pc], torch_program[state.pc]
            if stage.fn is twin.fn:
                engine.advance(state, until=state.pc + 1)
                continue
            before = engine.kv_cache.data.clone()
            other = dataclasses.replace(state, stage=twin)
            engine.advance(state, until=state.pc + 1)
            after, engine.kv_cache.data = engine.kv_cache.data, before
            with torch.inference_mode():
                twin.fn(engine, other)
            torch.testing.assert_close(after, engine.kv_cache.data, atol=0, rtol=0)
            engine.kv_cache.data = after
            for field in stage.writes:
                compare(field, state, other)
            seen.add(stage.name)
        engine.check()
    assert seen == set(TWINS)


def compare(field: str, state: StepState, other: StepState) -> None:
    if not hasattr(state, field):
        return  # the pool and the sequences
    found, wanted = getattr(state, field), getattr(other, field)
    if isinstance(wanted, torch.Tensor):
        found, wanted = (found,), (wanted,)
    if isinstance(wanted, tuple) and wanted and isinstance(wanted[0], torch.Tensor):
        for part, its_twin in zip(found, wanted, strict=True):
            share = TOLERANCE[state.resid_pre.dtype]
            torch.testing.assert_close(part, its_twin, atol=share, rtol=share)
    else:
        assert found == wanted


@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "bfloat16"])
@pytest.mark.parametrize("config", [TINY, WIDE], ids=["odd sizes", "whole vectors"])
@pytest.mark.parametrize("chunk", [None, 7], ids=["one pass", "chunks"])
def test_a_prompt_goes_through_the_same_stages(chunk: int | None, config, dtype, backend: NativeBackend) -> None:
    """More keys than fit into one panel, rows that are no multiple of a tile, and a sequence that decodes meanwhile."""
    model = tiny_model(config=config, dtype=dtype)
    engine = decoding(model, backend, PROMPTS["one"])
    torch_program = build_program(config)
    engine.add_request([i % 50 for i in range(90)], PARAMS, prefill_chunk=chunk)
    for _ in range(1 if chunk is None else 9):
        state = engine.begin_step()
        while state.pc < len(engine.program):
            stage, twin = engine.program[state.pc], torch_program[state.pc]
            other = dataclasses.replace(state, stage=twin)
            engine.advance(state, until=state.pc + 1)
            if stage.fn is twin.fn or stage.name == "write_kv":
                continue
            with torch.inference_mode():
                twin.fn(engine, other)
            for field in stage.writes:
                compare(field, state, other)
    assert len(state.groups) == 2
    engine.check()


def test_whatever_stands_in_scores_and_pattern_is_computed_with(backend: NativeBackend) -> None:
    """Without the mask, as a replaced stage may leave it: a row then reads what comes later."""
    model = tiny_model(config=WIDE)
    engine = Engine(model, EngineConfig(block_size=4), backend=backend)
    engine.add_request([i % 60 for i in range(70)], PARAMS)
    state = engine.begin_step()
    program = build_program(WIDE)
    engine.advance(state, until=8)
    assert engine.program[7].name == "attn_scores"
    state.attn_scores = (state.attn_scores[0].masked_fill(state.groups[0].hidden, 0.5),)
    for pc in (8, 9):
        other = dataclasses.replace(state, stage=program[pc])
        engine.advance(state, until=pc + 1)
        with torch.inference_mode():
            program[pc].fn(engine, other)
        for field in program[pc].writes:
            compare(field, state, other)


def test_rows_whose_mask_was_taken_off_see_everything(backend: NativeBackend) -> None:
    engine = Engine(tiny_model(config=WIDE), EngineConfig(block_size=4), backend=backend)
    engine.add_request([i % 60 for i in range(70)], PARAMS)
    state = engine.begin_step()
    engine.advance(state, until=7)
    state.groups = tuple(dataclasses.replace(group, hidden=None) for group in state.groups)
    engine.advance(state, until=9)
    assert state.attn_scores[0].isfinite().all()
    assert (state.attn_pattern[0] > 0).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "bfloat16"])
@pytest.mark.parametrize(("start", "count", "cell"), [(0, 40, 1), (0, 77, 4), (5, 19, 3), (37, 3, 22), (0, 1, 1)])
def test_the_largest_in_each_cell(start: int, count: int, cell: int, dtype, backend: NativeBackend) -> None:
    """What a recorder keeps of a prompt: torch's answer to the bit, where a NaN is the largest of all."""
    context = start + count
    rows = torch.rand(3, count, context + 2, generator=torch.Generator().manual_seed(1)).to(dtype)[..., :context]
    spoiled = rows.clone()
    spoiled[1, count // 2, context // 2] = float("nan")
    for each in (rows, spoiled, rows[:, :, : max(1, context // 2)], rows.mT.contiguous().mT):
        found, wanted = (b.largest_in_cells(each, start, cell) for b in (backend, TORCH))
        assert found.dtype == torch.float32
        assert torch.equal(found.isnan(), wanted.isnan())
        assert torch.equal(found.nan_to_num(), wanted.nan_to_num())
    assert backend.largest_in_cells(spoiled, start, cell).isnan().sum() == 1


def test_a_program_of_the_core_says_what_the_torch_program_says() -> None:
    program, twins = build_program(TINY), native_program(build_program(TINY))
    assert [dataclasses.replace(s, fn=t.fn) for s, t in zip(program, twins, strict=True)] == list(twins)
    for stage, twin in zip(program, twins, strict=True):
        assert twin.sentence == stage.sentence
        if stage.name in TWINS:
            assert twin.fn is not stage.fn
            assert f"def {stage.name}(engine: Engine, state: StepState) -> None:" in inspect.getsource(twin.fn)


def test_an_observer_changes_no_bit(backend: NativeBackend) -> None:
    model = tiny_model(config=WIDE)
    watched, alone = (decoding(model, backend, PROMPTS["three"]) for _ in range(2))
    for _ in range(4):
        ours = watched.step(lambda stage, state: [state.q.clone(), state.resid_pre.clone()])
        theirs = alone.step()
        assert torch.equal(ours.raw_logits, theirs.raw_logits)
    assert torch.equal(watched.kv_cache.data, alone.kv_cache.data)


def test_stages_change_nothing_in_place(backend: NativeBackend) -> None:
    engine = decoding(tiny_model(config=WIDE), backend, PROMPTS["three"])
    state = engine.begin_step()
    while state.pc < len(engine.program):
        fields = [f.name for f in dataclasses.fields(state) if isinstance(getattr(state, f.name), torch.Tensor)]
        before = {name: (getattr(state, name), getattr(state, name).clone()) for name in fields}
        cache = engine.kv_cache.data.clone()
        stage = engine.program[state.pc]
        engine.advance(state, until=state.pc + 1)
        for name, (tensor, copy) in before.items():
            assert torch.equal(tensor, copy), (stage.name, name)
        if stage.name != "write_kv":
            assert torch.equal(cache, engine.kv_cache.data), stage.name


@pytest.mark.parametrize("parked", range(3, 36, 4))
def test_a_branch_in_the_middle_of_a_step_leaves_its_trunk_alone(parked: int, backend: NativeBackend) -> None:
    model = tiny_model(config=WIDE)
    reference = decoding(model, backend, PROMPTS["one"])
    wanted = [reference.step().raw_logits for _ in range(3)]
    engine = decoding(model, backend, PROMPTS["one"])
    state = engine.begin_step()
    engine.advance(state, until=parked)
    branch = engine.fork_state(state)
    branch.resid_pre = branch.resid_pre + 1
    while state.pc < len(engine.program):
        engine.advance(branch, until=branch.pc + 1)
        engine.advance(state, until=state.pc + 1)
    assert torch.equal(state.raw_logits, wanted[0])
    trunk = next(iter(engine.sequences.values()))
    for logits in wanted[1:]:
        assert torch.equal(engine.step(only=trunk).raw_logits, logits)
    engine.check()


def test_batched_sequences_get_what_each_gets_alone(backend: NativeBackend) -> None:
    model = tiny_model(config=WIDE)
    together = decoding(model, backend, PROMPTS["three"])
    for _ in range(5):
        together.step()
    for seq, ids in zip(together.sequences.values(), PROMPTS["three"], strict=True):
        alone = decoding(model, backend, [ids])
        while alone.step():
            pass
        outputs = next(iter(alone.sequences.values())).output_ids
        assert seq.output_ids == outputs[: len(seq.output_ids)]


def test_a_static_batch_goes_through_torch(backend: NativeBackend) -> None:
    """A rectangle of rows is not decode; where it is one column wide, it is."""
    model = tiny_model(config=WIDE)
    outputs = []
    for chosen in (backend, None):
        kwargs = {} if chosen is None else {"backend": chosen}
        engine = Engine(model, EngineConfig(batching="static", max_num_seqs=3), **kwargs)
        seqs = [engine.add_request(ids, PARAMS) for ids in PROMPTS["three"]]
        while engine.step():
            engine.check()
        outputs.append([seq.output_ids for seq in seqs])
    assert outputs[0] == outputs[1]


def test_weights_of_a_model_are_given_to_the_core_once(backend: NativeBackend) -> None:
    model = tiny_model()
    first, second = Engine(model, backend=backend), Engine(model, backend=backend)
    assert first.weights is second.weights is not model.weights
    assert all(type(layer.qkv) is NativeLinear for layer in first.weights.layers)
    assert type(model.weights.layers[0].qkv) is not NativeLinear
    assert first.weights.nbytes >= model.weights.nbytes, "what is padded is read too"


def test_a_plain_matrix_stays_with_torch(backend: NativeBackend) -> None:
    from miniinfer.engine.linear import Linear

    engine = decoding(tiny_model(linear=Linear.plain), backend, PROMPTS["one"])
    reference = decoding(tiny_model(linear=Linear.plain), backend, PROMPTS["one"])
    reference.program, reference.weights = build_program(TINY), reference.model.weights
    for _ in range(3):
        torch.testing.assert_close(engine.step().raw_logits, reference.step().raw_logits, atol=1e-4, rtol=1e-4)


def test_sequences_of_unlike_length_are_one_group_in_the_core_and_two_in_torch(backend: NativeBackend) -> None:
    """The core reads each to its own end, so padding costs it little; the numbers are the same."""
    prompts = [[i % 50 for i in range(70)], *([i] for i in range(1, 7))]
    engines = [decoding(tiny_model(config=WIDE), each, prompts) for each in (backend, TORCH)]
    for _ in range(3):
        ours, theirs = (engine.step() for engine in engines)
        assert [len(state.groups) for state in (ours, theirs)] == [1, 2]
        torch.testing.assert_close(ours.raw_logits, theirs.raw_logits, atol=1e-4, rtol=1e-4)
        assert ours.token_ids == theirs.token_ids
