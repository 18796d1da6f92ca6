"""What loading a model takes, worked out from its shapes before anything is read: a system that gives out more memory
than it has ends the whole process when it runs out, so a model that cannot fit is refused."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from miniinfer.config import ModelConfig
from miniinfer.engine.packed import GROUP, ROWS
from miniinfer.errors import NoMemoryError
from miniinfer.free_memory import free_bytes, gigabytes
from miniinfer.models.blocks import READERS
from miniinfer.models.llama import TensorSource, expected_shapes

NUMBER = 4  # bytes of a number as it is read: float32
HALF = 2  # bytes of a number in float16 and bfloat16
JOINED = (("q", "k", "v"), ("gate", "up"))  # read apart, then put below each other in new memory


def weights_bytes(source: TensorSource, config: ModelConfig, dtype: str, device: str) -> int:
    """Bytes that the weights will hold in memory: what build.py and packed_build.py make of them."""
    embedding, held = source.names.embedding, 0
    for name, shape in expected_shapes(config, source.names):
        numbers = math.prod(shape)
        if name == embedding and device != "cpu":
            held += numbers * _itemsize(dtype)  # a tied matrix serves both
            continue
        if name == embedding:
            held += source.stored_bytes(name)
            if not config.tied:
                continue  # else a copy of it is the unembed matrix
        if dtype != "packed" or len(shape) == 1:
            held += numbers * _itemsize(dtype)
        elif source.stored_as(name) in READERS and shape[0] % ROWS == 0:
            held += numbers // 2 + numbers // GROUP * 2 * HALF
        else:
            held += numbers * HALF
    return held


def passing_bytes(source: TensorSource, config: ModelConfig, dtype: str) -> int:
    """The most that is needed beside the weights while one of them is made ready: its numbers in float32, twice where
    parts are joined, and where a packed matrix is compared with the file's."""
    twice = dtype == "packed"
    most = max(math.prod(shape) for _, shape in expected_shapes(config, source.names))
    joined = max((sum(sizes) for sizes in _joined(source, config)), default=0)
    return NUMBER * max(2 * most if twice else most, 2 * joined)


def check_it_fits(source: TensorSource, config: ModelConfig, dtype: str, device: torch.device) -> None:
    """Raises NoMemoryError, one sentence, if the weights cannot fit into the memory that is free."""
    passing = passing_bytes(source, config, dtype)
    free = _free(device)
    needed = weights_bytes(source, config, dtype, device.type) + (passing if device.type == "cpu" else 0)
    if free is None or needed <= free:
        return
    fits = [
        other for other in ("bfloat16", "packed")
        if other != dtype and (other != "packed" or (device.type == "cpu" and source.permuted_qk))
        and weights_bytes(source, config, other, device.type) + passing <= free
    ]  # fmt: skip
    way = f"choose the precision {' or '.join(fits)}, or close other programs" if fits else (
        "close other programs, let runs of other models go (page Model), or take a smaller model"
    )
    raise NoMemoryError(
        f"{source.path.name} needs {gigabytes(needed)} of memory in {dtype}, and {gigabytes(free)} are free on "
        f"{'this machine' if device.type == 'cpu' else device.type}: {way}."
    )


def _itemsize(dtype: str) -> int:
    return HALF if dtype == "bfloat16" else NUMBER


def _joined(source: TensorSource, config: ModelConfig) -> Iterator[list[int]]:
    parts, shapes = source.names.layer_parts, dict(expected_shapes(config, source.names))
    for group in JOINED:
        yield [math.prod(shapes[parts[part].format(0)]) for part in group]


def _free(device: torch.device) -> int | None:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return free_bytes()
