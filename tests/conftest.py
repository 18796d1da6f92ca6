"""What every test may ask for: the real model, loaded once, and the numbers it is compared with."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from miniinfer.engine.threads import configure

if TYPE_CHECKING:
    from miniinfer.models.loader import LoadedModel

if "PYTEST_XDIST_WORKER" in os.environ:
    # Two workers on two cores: with a thread a core in each, every product would wait for a thread that has no core.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
configure()  # before any test imports torch
os.environ.setdefault("MINIINFER_NATIVE", "0")  # tests/native has its own; elsewhere nothing is built meanwhile
# What loading makes of the file is tested, not a copy that was made before; tests of the copies turn them on.
os.environ.setdefault("MINIINFER_KEEP_WEIGHTS", "0")
# A shell that starts pytest in the background has it ignore Ctrl-C, and so would every program that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def model_path() -> Path:
    """The default model's GGUF file, fetched into the data folder if it is not there yet."""
    from miniinfer.models.fetch import ensure_default_model

    return ensure_default_model()


@pytest.fixture(scope="session")
def model(model_path: Path) -> LoadedModel:
    """SmolLM2-135M-Instruct in float32 on the CPU. Shared by all tests and never written."""
    from miniinfer.models.loader import load_model

    return load_model(model_path, device="cpu", dtype="float32")


@pytest.fixture(scope="session")
def reference() -> dict[str, Any]:
    """Ids, logits, attention rows and residual norms of ten prompts, computed by other software in float32."""
    return json.loads((DATA / "smollm2_reference.json").read_text(encoding="utf-8"))
