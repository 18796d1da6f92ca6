"""The backend where users meet it: the commands, a session, the pages that look into a step."""

from __future__ import annotations

import argparse
import copy
import inspect

import numpy as np
import pytest
import torch

from miniinfer.cli import bench, loading
from miniinfer.config import BACKENDS, SamplingParams
from miniinfer.engine.backend import TORCH, Backend
from miniinfer.engine.engine import Engine
from miniinfer.engine.graph.backend import GRAPH, GraphBackend
from miniinfer.engine.stages import attention
from miniinfer.figures.transport import summary
from miniinfer.measure.backends import measure_backends
from miniinfer.measure.progress import run_through
from miniinfer.native.choose import backend_sentence, choose_backend
from miniinfer.trace.inside.inside import StepInside
from miniinfer.trace.live_run import LiveRun
from miniinfer.ui.sessions.engine_config import backend_again
from tests.engine.tiny import tiny_model
from tests.trace.live import live_run
from tests.ui.conftest import host, new_session  # noqa: F401  fixtures

GREEDY = SamplingParams(temperature=0, max_new_tokens=4)


def test_it_is_chosen_by_name_and_never_by_itself() -> None:
    weights = tiny_model().weights
    assert choose_backend("graph", weights) is GRAPH
    assert choose_backend("auto", weights) is TORCH
    there = copy.copy(weights)
    object.__setattr__(there, "device", torch.device("cuda"))
    assert choose_backend("auto", there) is TORCH, "it has not been measured on a GPU"
    assert choose_backend("graph", there) is GRAPH
    assert "graph" in BACKENDS
    assert backend_again(tiny_model(), "graph") is GRAPH, "a run that comes back is computed as it was"
    assert backend_again(tiny_model(), "torch") is TORCH
    assert backend_sentence("graph") == GRAPH.sentence
    assert "core" in backend_sentence("auto")


def test_the_commands_take_it(model, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("miniinfer.models.loader.load_model", lambda *args, **options: model)
    options = argparse.Namespace(model=None, device="cpu", dtype="float32", backend="graph")
    assert Engine(loading.load(options)).backend is GRAPH
    assert bench._backends(options, model.weights) == [TORCH, GRAPH]


def test_a_session_computes_its_next_run_with_it(new_session) -> None:  # type: ignore[no-untyped-def]  # noqa: F811
    session = new_session()
    before = GRAPH.steps[""]
    runs = []
    for name in ("torch", "graph"):
        session.backend = name
        session.new_run("Hello", GREEDY, chat=False, one_pass=True)
        runs.append(session.timeline.current)
        session.step_to(4, 60)
    first, second = runs
    assert (second.info.backend, second.engine.backend) == ("graph", GRAPH)
    assert summary(second.info).endswith(" · CPU · float32 · graph")
    assert [t.token_id for t in first.tokens] == [t.token_id for t in second.tokens]
    last = first.seq.num_computed_tokens - 1
    np.testing.assert_allclose(first.logits_at(last), second.logits_at(last), atol=1e-3)
    assert GRAPH.steps[""] == before + 3


def stepped(backend: Backend, steps: int = 4) -> LiveRun:
    run = live_run(backend=backend)
    for _ in range(steps):
        run.step()
    return run


def looked_at(run: LiveRun, places: list[int]) -> list[dict[str, np.ndarray]]:
    """What the stages before these places of the last step wrote, one after another."""
    inside, found = StepInside(run, len(run.records)), []
    for pc in places:
        inside.goto(pc)
        values = {k: v for k, v in inside.written().items() if k not in ("slot_mapping", "new_blocks", "block_tables")}
        tensors = {k: v[0] if isinstance(v, tuple) and v else v for k, v in values.items()}
        found.append({k: v.float().numpy().copy() for k, v in tensors.items() if isinstance(v, torch.Tensor)})
    inside.close()
    return found


def test_inside_a_step_every_stage_forth_and_back(backend: GraphBackend) -> None:
    """Going back leaves the kept memory: what is seen comes from the readable program then, and is the same."""
    places = [*range(4, 38), 20, 21, 9, 10, 37, 5, 44, 12]
    ours, theirs = (looked_at(stepped(chosen), places) for chosen in (backend, TORCH))
    for pc, found, wanted in zip(places, ours, theirs, strict=True):
        assert set(found) == set(wanted), pc
        for name in found:
            np.testing.assert_allclose(found[name], wanted[name], atol=2e-5, rtol=2e-5, err_msg=f"{pc} {name}")
    run = stepped(backend)
    looked_at(run, [20, 9])
    expected = stepped(TORCH, 12)
    while run.step():
        pass
    assert run.seq.token_ids == expected.seq.token_ids


def test_the_source_of_a_replayed_stage_is_there_without_marks(captured: GraphBackend) -> None:
    """The first time its lines run, for the capture; a replay runs none of them."""
    run = stepped(captured)
    inside = StepInside(run, 4)
    inside.goto(5)
    look = inside.look()
    assert look is not None
    inside.close()
    names = [source.name for source in look.sources]
    assert names[:2] == ["run_kept", "qkv_proj"]
    torch_stage = look.sources[1]
    assert "\n".join(torch_stage.lines) + "\n" == inspect.getsource(attention.qkv_proj)
    assert torch_stage.ran == frozenset()
    assert look.sources[0].ran


def test_it_is_measured_beside_torch_stage_by_stage() -> None:
    backend = GraphBackend()
    found = run_through(
        measure_backends(tiny_model(), range(1, 30), 40, GREEDY, [TORCH, backend], rounds=4, warm_up=1,
                         buffer_bytes=2**20)
    )  # fmt: skip
    first, second = found.runs
    assert (first.backend, second.backend) == ("torch", "graph")
    assert [s.stage for s in first.step.stages] == [s.stage for s in second.step.stages]
    assert all(s.ms > 0 for s in second.step.stages if s.stage in ("attn_norm", "mlp_hidden", "attn_mix"))
    assert second.num_same >= 5
    assert second.max_difference < 1e-3
    assert backend.steps[""] >= 10
