"""The backend on the CPU: with stages that run again, and with a stand-in for CUDA's graphs."""

from __future__ import annotations

import pytest

from miniinfer.engine.graph.backend import GraphBackend
from miniinfer.engine.graph.capture import CudaCapture
from tests.engine.graph.fake_cuda import FakeCuda


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    return FakeCuda().install(monkeypatch)


@pytest.fixture
def captured(cuda: FakeCuda) -> GraphBackend:
    """All that runs on CUDA, but for CUDA."""
    return GraphBackend(CudaCapture)


@pytest.fixture(params=["run again", "captured"])
def backend(request: pytest.FixtureRequest) -> GraphBackend:
    return request.getfixturevalue("captured") if request.param == "captured" else GraphBackend()
