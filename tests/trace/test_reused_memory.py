"""What is kept of a step stays as it is when the next step writes to the same memory (engine/graph/)."""

from __future__ import annotations

import numpy as np
import pytest

from miniinfer.engine.backend import TORCH, Backend
from miniinfer.engine.graph.backend import GraphBackend
from miniinfer.engine.graph.capture import CudaCapture
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.run import ForceToken
from tests.engine.graph.fake_cuda import FakeCuda
from tests.trace.live import live_run


@pytest.fixture(params=["run again", "captured"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> GraphBackend:
    if request.param == "run again":
        return GraphBackend()
    FakeCuda().install(monkeypatch)
    return GraphBackend(CudaCapture)


def trunk_and_branch(backend: Backend) -> list[LiveRun]:
    """Twelve steps of a run, and a branch that left it after the fifth, in turns."""
    trunk = live_run(backend=backend)
    for _ in range(5):
        trunk.step()
    branch = trunk.fork(ForceToken(5, 11), "r2", "r2")
    while trunk.step() | branch.step():
        pass
    return [trunk, branch]


def kept(run: LiveRun) -> list[np.ndarray]:
    """All that panels ask of a run, from its first step to its last."""
    last = run.seq.num_computed_tokens - 1
    found = [run.rows_at(position) for position in (0, 8, last)]
    found += [run.weights_at(layer, last) for layer in range(run.info.model.num_layers)]
    found += [run.logits_at(position).numpy() for position in (6, 9, last)]
    found += [run.kv_norms(0), run.token_probs(0), run.queries(1, 0, last + 1), run.head_rows(2, 3, 0, last + 1)]
    return found + [part.final_norm for record in run.records for part in record.sequences]


def test_a_recorded_run_and_its_branch(backend: GraphBackend) -> None:
    for ours, theirs in zip(trunk_and_branch(backend), trunk_and_branch(TORCH), strict=True):
        assert ours.seq.token_ids == theirs.seq.token_ids
        for a, b in zip(kept(ours), kept(theirs), strict=True):
            if a.dtype == np.uint8:
                assert np.abs(a.astype(int) - b.astype(int)).max() <= 1, "weights of a row, rounded"
            else:
                np.testing.assert_allclose(a, b, atol=2e-5, rtol=2e-5, equal_nan=True)
    assert backend.steps[""] >= 12


def test_the_newest_row_of_a_run_stays_while_another_run_steps(backend: GraphBackend) -> None:
    trunk = live_run(backend=backend)
    for _ in range(6):
        trunk.step()
    branch = trunk.fork(ForceToken(3, 11), "r2", "r2")
    last = trunk.seq.num_computed_tokens - 1
    before = [trunk.weights_at(layer, last) for layer in range(3)]
    steps = backend.steps[""]
    for _ in range(3):
        branch.step()
    assert backend.steps[""] > steps, "the branch has written to the memory that the trunk's last step wrote to"
    for layer in range(3):
        assert np.array_equal(trunk.weights_at(layer, last), before[layer])
