"""What is no plain decode step is the readable program's, with the reason told; and parked steps, forks, branches."""

from __future__ import annotations

import copy
import dataclasses
import random

import pytest
import torch

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine import groups
from miniinfer.engine.backend import TORCH, Backend
from miniinfer.engine.engine import Engine
from miniinfer.engine.graph import backend as graph_backend
from miniinfer.engine.graph import step as graph_step
from miniinfer.engine.graph.backend import GraphBackend
from miniinfer.engine.program import build_program
from miniinfer.engine.sequence import Sequence
from miniinfer.engine.side_engine import side_engine
from miniinfer.engine.state import StepState
from miniinfer.faults.knock_out import Scaling, scaled_program
from tests.engine import test_random_traffic
from tests.engine.helpers import SMALL
from tests.engine.tiny import TINY, tiny_model

PARAMS = SamplingParams(temperature=0.7, seed=5, max_new_tokens=30)
ROOMY = EngineConfig(block_size=4, pool_chunk_blocks=30)
PROMPT = [5, 6, 7, 8, 9]
LAST = len(build_program(TINY))


def decoding(backend: Backend, steps: int = 3, config: EngineConfig = ROOMY) -> Engine:
    """One sequence that has been stepped so often."""
    engine = Engine(tiny_model(), config, backend=backend)
    engine.add_request(PROMPT, PARAMS)
    for _ in range(steps):
        engine.step()
    return engine


def parked_step(
    backend: GraphBackend, until: int, config: EngineConfig = ROOMY
) -> tuple[Engine, Sequence, StepState]:
    """Such an engine, its sequence, and the step of that one, begun and left before stage `until`."""
    engine = decoding(backend, config=config)
    trunk = next(iter(engine.sequences.values()))
    state = engine.begin_step(only=trunk)
    engine.advance(state, until=until)
    return engine, trunk, state


def wanted(steps: int = 3, more: int = 3) -> list[torch.Tensor]:
    """The logits of the steps after those, by the readable program."""
    engine = decoding(TORCH, steps)
    return [engine.step().raw_logits for _ in range(more)]


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=2e-5)


def test_prompts_are_the_readable_programs_and_are_not_counted(backend: GraphBackend) -> None:
    engine = decoding(backend, 1)
    assert backend.steps == {}
    engine.add_request(PROMPT, PARAMS)
    state = engine.step()
    assert [entry.num_tokens for entry in state.scheduled] == [1, 5], "a decode row beside a prompt"
    assert state.plan is None
    assert backend.steps == {}


@pytest.mark.parametrize("parked", range(3, LAST - 10, 8))
def test_a_branch_in_the_middle_of_a_step_leaves_its_trunk_alone(backend: GraphBackend, parked: int) -> None:
    expected = wanted()
    engine = decoding(backend)
    state = engine.begin_step()
    engine.advance(state, until=parked)
    branch = engine.fork_state(state)
    branch.resid_pre = branch.resid_pre + 1
    while state.pc < LAST:
        engine.advance(branch, until=branch.pc + 1)
        engine.advance(state, until=state.pc + 1)
    close(state.raw_logits, expected[0])
    trunk = next(iter(engine.sequences.values()))
    for logits in expected[1:]:
        close(engine.step(only=trunk).raw_logits, logits)
    engine.check()


def test_a_copy_of_a_parked_step_keeps_its_numbers_while_the_trunk_goes_on(backend: GraphBackend) -> None:
    """The copy stands in the memory of the step that it was copied from, so nobody else may write there."""
    expected = wanted()
    engine, trunk, state = parked_step(backend, 20)
    branch = engine.fork_state(state)
    close(engine.advance(state).raw_logits, expected[0])
    for logits in expected[1:]:
        close(engine.step(only=trunk).raw_logits, logits)
    assert backend.steps == {"": 3, graph_backend.IN_USE: 2}
    close(engine.advance(branch).raw_logits, expected[0])
    engine.step(only=trunk)
    assert backend.steps == {"": 4, graph_backend.IN_USE: 2}, "when it is done, the memory is free again"


def test_a_parked_step_keeps_its_memory_while_others_step(backend: GraphBackend) -> None:
    expected = wanted()
    engine = decoding(backend)
    trunk = next(iter(engine.sequences.values()))
    other = engine.fork(trunk, trunk.num_tokens, params=dataclasses.replace(PARAMS, seed=9))
    state = engine.begin_step(only=trunk)
    engine.advance(state, until=20)
    for _ in range(3):
        engine.step(only=other)
    assert backend.steps[graph_backend.IN_USE] == 3
    close(engine.advance(state).raw_logits, expected[0])
    close(engine.step(only=trunk).raw_logits, expected[1])


@pytest.mark.parametrize("parked", [5, 6, 7, 8, 9, 17, 18])
def test_the_pool_grows_under_a_parked_step(backend: GraphBackend, parked: int) -> None:
    """Before and after each of the stages that touch it."""
    expected = wanted()
    engine, trunk, state = parked_step(backend, parked, config=SMALL)
    before = engine.kv_cache.data
    engine.add_request([60, 61, 62, 63, 64, 65, 66, 0, 1, 9, 11], PARAMS)
    other = [*engine.sequences.values()][1]
    engine.step(only=other)
    assert engine.kv_cache.data is not before
    with torch.inference_mode():
        before.fill_(float("nan")) if parked < 7 else None  # nothing of this step has been written there yet
    close(engine.advance(state).raw_logits, expected[0])
    assert backend.steps == {"": 2, graph_step.MOVED: 1}
    close(engine.step(only=trunk).raw_logits, expected[1])


def test_a_side_engine_keeps_out_of_a_parked_steps_memory(backend: GraphBackend) -> None:
    expected = wanted()
    engine, trunk, state = parked_step(backend, 20)
    side = side_engine(engine, engine.program)
    twin = side.fork(trunk, trunk.num_tokens - 2)
    side.step(only=twin)
    side.release(twin)
    assert backend.steps[graph_backend.IN_USE] == 1
    close(engine.advance(state).raw_logits, expected[0])


def test_going_back_within_a_step_runs_the_readable_program_from_there(backend: GraphBackend) -> None:
    expected = wanted()
    engine = decoding(backend)
    state = engine.begin_step()
    engine.advance(state, until=14)
    assert engine.program[14].name == "attn_norm"
    kept = dict(vars(state))
    engine.advance(state, until=30)
    for name, value in kept.items():
        setattr(state, name, value)
    close(engine.advance(state).raw_logits, expected[0])
    assert backend.steps[graph_step.AGAIN] == 1
    close(engine.step().raw_logits, expected[1])


@pytest.mark.parametrize("field", ["resid_post", "q", "attn_scores", "attn_pattern", "z", "mlp_hidden", "groups"])
def test_a_field_that_somebody_changes_is_computed_with(backend: GraphBackend, field: str) -> None:
    """As an observer may do it: the program goes on with what stands in the state."""

    def change(stage, state) -> None:
        if (stage.layer, stage.name) != (1, writer):
            return
        value = getattr(state, field)
        if field == "groups":
            value = (dataclasses.replace(value[0], hidden=torch.arange(value[0].context_len) > 3),)
        elif isinstance(value, tuple):
            value = tuple(part * 0.5 for part in value)
        else:
            value = value * 0.5
        setattr(state, field, value)

    writers = [s.name for s in build_program(TINY) if s.layer == 1 and field in s.writes]
    writer = writers[-1] if writers else "write_kv"
    outputs = [decoding(chosen).step(change).raw_logits for chosen in (TORCH, backend)]
    close(outputs[1], outputs[0])
    assert backend.steps == {"": 2, graph_step.CHANGED: 1}


def test_an_intervention_is_the_readable_programs(backend: GraphBackend) -> None:
    """A knock-out wraps one stage of the run's own program; its numbers are those of the same wrap around torch's."""
    outputs = []
    for chosen in (TORCH, backend):
        engine = decoding(chosen)
        trunk = next(iter(engine.sequences.values()))
        side = side_engine(engine, scaled_program(engine, [Scaling(1, 0.0, (0, 3))]))
        twin = side.fork(trunk, trunk.num_tokens - 1)
        outputs.append(side.step(only=twin).raw_logits)
        side.release(twin)
    close(outputs[1], outputs[0])
    assert backend.steps[graph_backend.REPLACED] == 1
    assert "because a stage is replaced" in backend.sentence


def test_a_static_batch_is_the_readable_programs(backend: GraphBackend) -> None:
    outputs = []
    for chosen in (TORCH, backend):
        engine = Engine(tiny_model(), EngineConfig(batching="static", max_num_seqs=3), backend=chosen)
        seqs = [engine.add_request(ids, PARAMS) for ids in (PROMPT, [1, 2], [3, 4, 5])]
        while engine.step():
            engine.check()
        outputs.append([seq.output_ids for seq in seqs])
    assert outputs[0] == outputs[1]
    assert set(backend.steps) == {graph_backend.REPLACED}


def test_unlike_lengths_and_many_sequences(backend: GraphBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_backend, "MOST_ROWS", 2)
    engine = decoding(backend)
    engine.add_request(PROMPT, PARAMS)
    engine.step()
    engine.step()
    engine.add_request(PROMPT, PARAMS)
    engine.step()
    engine.step()
    assert backend.steps == {"": 3, graph_backend.TOO_MANY: 1}
    apart = Engine(tiny_model(), SMALL, make_groups=groups.one_group_each, backend=backend)
    for _ in range(2):
        apart.add_request(PROMPT, PARAMS)
    apart.step()
    apart.step()
    assert backend.steps == {"": 3, graph_backend.TOO_MANY: 1, graph_backend.UNLIKE: 1}


def test_sequences_of_unlike_length_stay_together(backend: GraphBackend) -> None:
    """Torch would cut them into groups; here each is hidden from what lies behind its end."""
    config = EngineConfig(block_size=4, pool_chunk_blocks=60)
    outputs = []
    for chosen in (TORCH, backend):
        engine = Engine(tiny_model(), config, backend=chosen)
        seqs = [engine.add_request(range(length), PARAMS) for length in (60, 3, 30)]
        while engine.step():
            engine.check()
        outputs.append([seq.output_ids for seq in seqs])
    assert outputs[0] == outputs[1]
    assert backend.steps == {"": 29}


def test_a_step_that_fails_leaves_the_memory_to_the_next(backend: GraphBackend) -> None:
    expected = wanted()
    engine = decoding(backend)

    def fail(stage, state) -> None:
        if (stage.layer, stage.name) == (1, "mlp_norm"):
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        engine.step(fail)
    close(engine.step().raw_logits, expected[0])
    assert backend.steps == {"": 3}


@pytest.mark.parametrize("seed", [6, 12])
def test_under_random_traffic_everybody_gets_what_they_get_alone(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    backend, model = GraphBackend(), copy.copy(tiny_model())
    object.__setattr__(model, "choose_backend", lambda weights: backend)
    with monkeypatch.context() as patch:
        patch.setattr(test_random_traffic, "shared_tiny", lambda: model)
        traffic = test_random_traffic.Traffic(random.Random(seed))
        assert traffic.engine.backend is backend
        traffic.run()
    assert traffic.check_against_alone() > 0
    assert backend.steps.total() > 3
