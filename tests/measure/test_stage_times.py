"""Where the time goes: the stages are all there, add up to the step, and a slow one is seen where it is."""

from __future__ import annotations

import time

import pytest
import torch

from miniinfer.config import SamplingParams
from miniinfer.engine.clock import DeviceClock, allocator_bytes
from miniinfer.engine.engine import Engine
from miniinfer.engine.program import build_program
from miniinfer.engine.stages.mlp import mlp_out
from miniinfer.errors import BadInputError
from miniinfer.faults.replace import replace_stage
from miniinfer.measure.groups import GROUPS, STAGES, group_of
from miniinfer.measure.progress import part, run_through
from miniinfer.measure.records import Stats
from miniinfer.measure.stage_times import StageClock, measure_decode, measure_prefill
from miniinfer.measure.summary import by_group, by_stage, weights_read
from miniinfer.measure.workload import rounds_of, stretched
from miniinfer.models.loader import LoadedModel
from tests.engine.tiny import TINY, tiny_model
from tests.measure.helpers import IDS

PARAMS = SamplingParams(temperature=0.8, top_p=0.9)


def test_stages_of_the_real_model_add_up_to_the_step_within_five_per_cent(model: LoadedModel) -> None:
    ids = model.tokenizer.encode("The capital of France is", parse_special=False)
    measurements = (
        lambda: measure_prefill(model, ids, PARAMS, rounds=4), lambda: measure_decode(model, ids, 20, PARAMS, rounds=8)
    )  # fmt: skip
    for measure in measurements:
        tries = (run_through(measure()) for _ in range(3))  # a busy machine may hold a step up between two stages
        step = next((step for step in tries if step.gap_ms < 0.05 * step.step_ms), None)
        assert step is not None
        assert step.gap_ms >= 0
        assert [(s.stage, s.layer) for s in step.stages] == [(s.name, s.layer) for s in build_program(model.config)]
        groups = by_group(by_stage(step))
        assert sum(groups.values()) + step.gap_ms == pytest.approx(step.step_ms)
        assert groups["mlp"] > groups["bookkeeping"]
        assert step.watched.rounds == step.plain.rounds
        row = model.weights.embedding.nbytes // model.config.vocab_size
        assert weights_read(step) == model.weights.nbytes + step.num_tokens * row


def test_a_slow_stage_is_seen_where_it_is_and_nowhere_else() -> None:
    def slow(engine, state):  # type: ignore[no-untyped-def]
        time.sleep(0.03)
        mlp_out(engine, state)

    engine = Engine(tiny_model(), program=replace_stage(build_program(TINY), "mlp_out", slow, layers=[1]))
    engine.add_request(IDS, PARAMS)
    clock = StageClock(DeviceClock(engine.device))
    clock.begin()
    engine.step(clock)
    step_ms, stages = clock.read()
    assert 30 <= stages["mlp_out", 1] <= step_ms
    assert sum(stages.values()) <= step_ms
    assert stages["mlp_out", 1] > stages["mlp_out", 0]
    assert len(stages) == len(engine.program)
    assert clock.shape is not None
    assert clock.shape.changed == {"processor_3", "processor_5"}  # temperature and top-p; the others are off


def test_prefill_and_decode_stand_where_they_say() -> None:
    model = tiny_model()
    prefill = run_through(measure_prefill(model, IDS, PARAMS, rounds=3))
    assert (prefill.phase, prefill.num_tokens, prefill.context_len) == ("prefill", 7, 7)
    decode = run_through(measure_decode(model, IDS, 40, PARAMS, rounds=9, warm_up=2))
    assert (decode.phase, decode.num_tokens, decode.context_len) == ("decode", 1, 40)
    assert (decode.watched.rounds, decode.watched.warm_up) == (9, 2)
    early = run_through(measure_decode(model, IDS, 1, PARAMS, rounds=4, warm_up=0))
    assert early.context_len == 3, "the sequence begins with one token; the round in the middle is the third"


def test_a_measurement_that_does_not_fit_into_the_context_is_refused() -> None:
    with pytest.raises(BadInputError, match="do not fit"):
        run_through(measure_decode(tiny_model(), IDS, 95, PARAMS, rounds=24))
    with pytest.raises(BadInputError, match="no text"):
        run_through(measure_decode(tiny_model(), [], 9, PARAMS))
    with pytest.raises(BadInputError, match="at least one"):
        run_through(measure_prefill(tiny_model(), IDS, PARAMS, rounds=0))


def test_a_stop_token_does_not_end_a_measurement() -> None:
    model = tiny_model(stop_ids=frozenset(range(TINY.vocab_size)))
    assert run_through(measure_decode(model, IDS, 20, PARAMS, rounds=5)).watched.rounds == 5


def test_the_same_text_is_stretched_and_never_changed() -> None:
    ids = (1, 2, 3)
    assert stretched(ids, 7) == [1, 2, 3, 1, 2, 3, 1]
    assert stretched(ids, 2) == [1, 2]


def test_rounds_throw_the_warm_up_away_and_shuffle() -> None:
    calls: list[str] = []

    def job(name: str) -> float:
        calls.append(name)
        return float(len(calls))

    variants = {"a": lambda: job("a"), "b": lambda: job("b")}
    shares = []
    taken = run_through(rounds_of(variants, rounds=6, warm_up=2, text="x"), lambda p: shares.append(p.share))
    assert [len(v) for v in taken.values()] == [6, 6]
    assert sorted(taken["a"] + taken["b"]) == list(range(5, 17))
    pairs = {tuple(calls[i : i + 2]) for i in range(0, 16, 2)}
    assert pairs == {("a", "b"), ("b", "a")}
    assert shares == sorted(shares)
    assert len(shares) == 16


def test_a_part_counts_between_its_bounds() -> None:
    shares: list[float] = []
    found = run_through(part(rounds_of({"a": lambda: 1.0}, rounds=4, warm_up=0, text="x"), 0.5, 1.0),
                        lambda p: shares.append(p.share))  # fmt: skip
    assert shares == [0.5, 0.625, 0.75, 0.875]
    assert found == {"a": [1.0] * 4}


def test_every_stage_of_the_program_has_a_group() -> None:
    found = {stage.name: group_of(stage.name) for stage in build_program(TINY)}
    assert set(found.values()) == set(GROUPS)
    assert {name for name, group in found.items() if group == "bookkeeping"} == {
        "schedule", "prepare_inputs", "embed", "commit",
    }  # fmt: skip
    assert set(found) >= {name for names in STAGES.values() for name in names}


def test_stats() -> None:
    found = Stats.of([5, 1, 3, 2, 4], warm_up=2)
    assert (found.median_ms, found.p10_ms, found.p90_ms, found.rounds, found.warm_up) == (3, 1, 5, 5, 2)


def test_the_cpu_pretends_nothing() -> None:
    clock = DeviceClock(torch.device("cpu"))
    assert clock.name == "clock"
    assert clock.time(lambda: time.sleep(0.01)) >= 10
    assert allocator_bytes(torch.device("cpu")) is None
