"""Two backends in turn: each stage of both, the same tokens, and three pieces of a step that add up to it."""

from __future__ import annotations

import dataclasses
import time

import pytest

from miniinfer.config import SamplingParams
from miniinfer.engine.backend import TORCH, TorchBackend
from miniinfer.engine.program import build_program
from miniinfer.engine.stage import Stage
from miniinfer.engine.stages.mlp import mlp_out
from miniinfer.errors import BadInputError
from miniinfer.faults.replace import replace_stage
from miniinfer.figures.cost.backends import (
    agreement_words,
    backends_headline,
    backends_table,
    backends_words,
    stages_figure,
)
from miniinfer.figures.palette import LIGHT
from miniinfer.measure.backends import Operations, measure_backends
from miniinfer.measure.progress import run_through
from miniinfer.measure.records import BackendComparison
from miniinfer.measure.summary import split_of
from miniinfer.measure.workload import own_engine
from tests.engine.tiny import TINY, tiny_model
from tests.measure.helpers import IDS, comparison

PARAMS = SamplingParams(temperature=0.8, top_p=0.9)
BUFFER = 2**20


class Twice(TorchBackend):
    """Torch, with one stage that does its work twice and one that takes its time."""

    name = "twice"
    group_cost = TORCH.group_cost

    def program(self, program: tuple[Stage, ...]) -> tuple[Stage, ...]:
        def slow(engine, state):  # type: ignore[no-untyped-def]
            mlp_out(engine, dataclasses.replace(state))
            time.sleep(0.01)
            mlp_out(engine, state)

        return replace_stage(program, "mlp_out", slow)


def measured(backends, **options) -> BackendComparison:  # type: ignore[no-untyped-def]
    return run_through(
        measure_backends(tiny_model(), IDS, 20, PARAMS, backends, rounds=4, warm_up=1, buffer_bytes=BUFFER, **options)
    )


def test_both_backends_take_the_same_steps_in_the_same_rounds() -> None:
    found = measured([TORCH, Twice()])
    first, second = found.runs
    assert (first.backend, second.backend, found.dtype) == ("torch", "twice", "float32")
    assert first.step.context_len == second.step.context_len == 20
    assert first.step.plain.rounds == second.step.plain.rounds == found.read.rounds == found.smallest.rounds == 4
    assert (first.num_same, second.num_same) == (5, 5)
    assert first.max_difference == second.max_difference == 0
    assert first.ratio == 1
    assert second.ratio < 1, "30 ms of sleeping make it the slower one"
    assert second.operations["mlp_out"] == 2 * first.operations["mlp_out"] > 0
    assert {n: c for n, c in second.operations.items() if n != "mlp_out"} == {
        n: c for n, c in first.operations.items() if n != "mlp_out"
    }
    for run in found.runs:
        split = split_of(found, run)
        assert [s.stage for s in split] == [*dict.fromkeys(s.name for s in build_program(TINY)), ""]
        assert sum(s.ms for s in split) == pytest.approx(run.step.step_ms)
        assert all(s.moving_ms >= 0 and s.asking_ms >= 0 and s.rest_ms > -1e-9 for s in split)
    slow = {s.stage: s for s in split_of(found, second)}["mlp_out"]
    assert slow.rest_ms > 25


def test_a_backend_that_says_something_else_is_seen() -> None:
    class Other(Twice):
        def weights(self, weights):  # type: ignore[no-untyped-def]
            return dataclasses.replace(weights, final_norm=weights.final_norm * -1)

    _, other = measured([TORCH, Other()]).runs
    assert other.num_same < 5
    assert other.max_difference > 0.1


def test_operations_are_counted_by_the_stage_that_asks() -> None:
    engine = own_engine(tiny_model())
    seq = engine.add_request(IDS, PARAMS)
    with Operations() as counted:
        engine.step(counted, only=seq)
    assert counted.total == counted.by_stage.total() + counted.between
    assert counted.by_stage["commit"] == counted.by_stage["schedule"] == 0, "plain Python"
    assert counted.by_stage["embed"] >= 1
    assert counted.by_stage["attn_scores"] > TINY.num_layers


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(BadInputError, match="no backend"):
        measured([])
    with pytest.raises(BadInputError, match="do not fit"):
        run_through(measure_backends(tiny_model(), IDS, 95, PARAMS, [TORCH]))


def test_three_pieces_never_are_more_than_a_stage_took() -> None:
    found = comparison()
    assert found.bytes_per_second == 1e6
    splits = {s.stage: s for s in split_of(found, found.runs[0])}
    assert (splits["qkv_proj"].moving_ms, splits["qkv_proj"].asking_ms) == (pytest.approx(1.1), pytest.approx(0.4))
    assert (splits["processor_5"].moving_ms, splits["processor_5"].asking_ms) == (0.5, 0), "all of its time, no more"
    assert splits[""].asking_ms == pytest.approx(0.3)
    assert splits[""].ms == pytest.approx(1.0)


def test_words_and_table_say_the_same() -> None:
    found = comparison()
    assert backends_headline(found) == (
        "A decode step with 9 in the cache takes 9.5 ms in torch and 9.5 ms in native: by round, torch takes 2.5 times "
        "as long"
    )
    assert "(torch 9 and native 1), each at the 100.00 µs" in backends_words(found)
    assert "the same token was taken in all 6 steps; up to there" in agreement_words(found.runs[1], found.runs[0])
    part = dataclasses.replace(found.runs[1], num_same=2)
    assert "native and torch the same token was taken in the first 2 of 6 steps" in agreement_words(part, found.runs[0])
    table = backends_table(found, PARAMS.order).set_index("stage")
    assert list(table.index) == ["qkv_proj", "mlp_hidden", "unembed", "Top-p", "between the stages", "step"]
    assert table["torch ms"][:-1].sum() == table["torch ms"]["step"] == pytest.approx(10)
    assert table["torch operations"].to_list() == [4, 0, 2, 0, 3, 9]
    assert table["moving ms"]["step"] == pytest.approx(4.4)


def test_three_backends_are_each_held_against_the_first() -> None:
    found = comparison()
    third = dataclasses.replace(found.runs[1], backend="graph", ratio=0.5)
    found = dataclasses.replace(found, runs=(*found.runs, third))
    said = "torch takes 2.5 times as long as native and 0.50 times as long as graph"
    assert backends_headline(found).endswith(said)
    table = backends_table(found, PARAMS.order).set_index("stage")
    assert {"torch : native", "torch : graph", "graph ms", "graph operations"} <= set(table)
    assert "ratio" not in table
    bars = [trace for trace in stages_figure(found, PARAMS.order, LIGHT, 300)["data"] if trace["type"] == "bar"]
    assert [bar["name"] for bar in bars] == ["torch", "native", "graph"]
    assert len({bar["marker"]["color"] for bar in bars}) == 3
