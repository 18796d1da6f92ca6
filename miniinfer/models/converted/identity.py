"""What converted weights depend on: which file, as it is now; in which form; by which code; for which processor."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
from pathlib import Path

import torch

from miniinfer.models.converted.layout import MAGIC
from miniinfer.models.file_state import file_sample, file_state
from miniinfer.models.processor import processor

PACKAGE = Path(__file__).parents[2]
# A change of any of these may change what is converted, or how it is kept.
CODE = (
    "engine/linear.py", "engine/packed.py", "engine/onednn.py",
    "models/blocks.py", "models/build.py", "models/gguf_source.py", "models/llama.py", "models/packed_build.py",
    "models/safetensors_source.py", "models/tensor_types.py",
    "models/converted/layout.py", "models/converted/matrices.py", "models/converted/copies.py",
)  # fmt: skip
VARIABLES = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY")  # with these a user forgoes abilities


def identity(path: Path, dtype: str) -> str | None:
    """A short hash of all that; None if the file cannot be looked at. dtype: float32, bfloat16 or packed."""
    state, sample = file_state(path), file_sample(path)
    if not state or not sample:
        return None
    found = hashlib.sha256()
    for name in CODE:
        found.update((PACKAGE / name).read_bytes())
    versions = (torch.__version__, importlib.metadata.version("gguf"), torch.backends.cpu.get_cpu_capability())
    chosen = tuple(os.environ.get(name, "") for name in VARIABLES)
    for part in (MAGIC, state, sample, dtype, versions, chosen, processor()):
        found.update(repr(part).encode() + b"\0")
    return found.hexdigest()[:24]

