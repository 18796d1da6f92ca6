"""MiniInfer: a small engine that runs a real language model and shows each stage of it.

The public names load on first use, so `import miniinfer` needs nothing but Python. This file and `__main__.py` keep to
syntax that Python 3.6 reads, so that an old Python gets a sentence and no traceback.
"""

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from miniinfer.config import EngineConfig, ModelConfig, SamplingParams
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.sampler import SamplerTrace, sampler_trace
    from miniinfer.errors import MiniInferError
    from miniinfer.models.loader import load_model

__version__ = "0.1.0"
__all__ = [
    "Engine", "EngineConfig", "MiniInferError", "ModelConfig", "SamplerTrace", "SamplingParams", "__version__",
    "load_model", "sampler_trace",
]  # fmt: skip

_HOMES = {
    "Engine": "miniinfer.engine.engine",
    "EngineConfig": "miniinfer.config",
    "MiniInferError": "miniinfer.errors",
    "ModelConfig": "miniinfer.config",
    "SamplerTrace": "miniinfer.engine.sampler",
    "SamplingParams": "miniinfer.config",
    "load_model": "miniinfer.models.loader",
    "sampler_trace": "miniinfer.engine.sampler",
}


def __getattr__(name: str) -> object:
    """Load a public name from the module that defines it, and keep it."""
    if name not in _HOMES:
        raise AttributeError("module 'miniinfer' has no attribute {!r}".format(name))  # noqa: UP032 (old Python)
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list:  # not list[str], which an old Python cannot read
    return sorted(set(globals()) | set(__all__))
