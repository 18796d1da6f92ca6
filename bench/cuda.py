"""On a CUDA device: does the program say there what it says on the CPU, and how long does a step take, by events.

Parity: the passage in float32 and in bfloat16 on the device against float32 on the CPU. Times: steps as the app makes
them, recorded, in bfloat16, against reading the weights on the device. Graph: the stages of a decode step whose shapes
do not depend on the length (all but attention), in all layers, as one captured graph against the same calls one by one;
both must give the same numbers. Ends with a sentence where there is no such device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from bench import report, setting
from bench.passage import passage
from bench.report import Figure
from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.clock import DeviceClock
from miniinfer.engine.engine import Engine
from miniinfer.engine.lookup import logits_of
from miniinfer.engine.state import StepState
from miniinfer.errors import BadInputError
from miniinfer.measure.timing import timing_of
from miniinfer.models.loader import LoadedModel, load_model

FIXED = ("attn_norm", "qkv_proj", "rope", "attn_out", "mlp_norm", "mlp_hidden", "mlp_out")
MOST_KL = {"float32": 1e-4, "bfloat16": 0.02}  # mean over the positions, in nats


@dataclass(frozen=True)
class Size:
    parity: int = 256
    contexts: tuple[int, ...] = (64, 256, 1024)
    prefill: int = 512
    rounds: int = 50


QUICK = Size(parity=32, contexts=(64,), prefill=64, rounds=8)


def measure(size: Size) -> list[Figure]:
    """All figures. Raises BadInputError if this machine has no CUDA device."""
    if not torch.cuda.is_available():
        raise BadInputError("This machine has no CUDA device that torch can use, so there is nothing to measure here.")
    models = {
        name: setting.endless(load_model(device=device, dtype=dtype))
        for name, device, dtype in (
            ("cpu", "cpu", "float32"), ("float32", "cuda", "float32"), ("bfloat16", "cuda", "bfloat16"))
    }  # fmt: skip
    return setting.in_engine_thread(lambda: _measure(size, models))


def _measure(size: Size, models: dict[str, LoadedModel]) -> list[Figure]:
    figures = []
    for dtype in ("float32", "bfloat16"):
        kl, same = difference(models["cpu"], models[dtype], size.parity)
        figures.append(Figure(f"{dtype} on the device, KL from the CPU's float32", kl, "nats", MOST_KL[dtype]))
        figures.append(Figure(f"{dtype} on the device, positions with the same best token", same, "share"))
    model = models["bfloat16"]
    clock = DeviceClock(model.weights.device)
    read = weights_reader(model)
    for context in size.contexts:
        start = setting.middle(context, size.rounds)
        run = setting.step_until(setting.live_run(model, start), start)
        figures += times(f"decode, T = {context}", clock, run.step, size.rounds)
        figures += times(f"decode, T = {context}: reading the weights", clock, read, size.rounds)
    figures += times(
        f"prefill of {size.prefill}", clock,
        lambda: setting.step_until(setting.live_run(model, size.prefill), size.prefill), max(3, size.rounds // 10),
    )  # fmt: skip
    return figures + graph(model, clock, size.rounds)


def difference(reference: LoadedModel, other: LoadedModel, length: int) -> tuple[float, float]:
    """Of all positions of a passage: mean KL(reference || other), and the share with the same best token."""
    p, q = (all_logits(model, length).log_softmax(-1) for model in (reference, other))
    kl = (p.exp() * (p - q)).sum(-1).mean()
    return max(float(kl), 1e-12), float((p.argmax(-1) == q.argmax(-1)).float().mean())


def all_logits(model: LoadedModel, length: int) -> Tensor:
    """After each token of the passage: [T, V] on the CPU."""
    engine = Engine(model, EngineConfig(max_num_batched_tokens=length))
    engine.add_request(passage(model.tokenizer, length), SamplingParams(max_new_tokens=0))
    state = engine.step()
    assert state is not None
    return logits_of(engine, state.final_norm_out)


def weights_reader(model: LoadedModel) -> Callable[[], object]:
    """Reads as many bytes as a step does, on the device."""
    numbers = torch.ones(model.weights.nbytes // 4, device=model.weights.device)
    return numbers.sum


def times(name: str, clock: DeviceClock, job: Callable[[], object], rounds: int) -> list[Figure]:
    for _ in range(setting.WARM_UP):
        job()
    taken = [clock.time(job) for _ in range(rounds)]
    timing = timing_of(taken, taken)
    return [Figure(name, timing.median_ms, "ms", p90=timing.p90_ms)]


class FixedStages:
    """The stages of one decode row whose shapes never change, in all layers; attention's result is given. `run()`."""

    def __init__(self, model: LoadedModel) -> None:
        self.engine = Engine(model)
        config, device, dtype = model.config, model.weights.device, model.weights.dtype
        self.resid = model.weights.embedding(torch.tensor([1], device=device)).to(dtype)  # [1, E]
        self.z = torch.ones((1, config.num_heads, config.head_dim), device=device, dtype=dtype)
        self.cos, self.sin = self.engine.rope.at(torch.tensor([7], device=device))

    @torch.inference_mode()
    def run(self) -> Tensor:
        """The last residual vector [1, E]."""
        state = StepState(resid_pre=self.resid, resid_post=self.resid, z=self.z, rope_cos=self.cos, rope_sin=self.sin)
        for stage in self.engine.program:
            if stage.name in FIXED:
                state.stage = stage
                stage.fn(self.engine, state)
        return state.resid_post


def graph(model: LoadedModel, clock: DeviceClock, rounds: int) -> list[Figure]:
    """One by one against captured. Raises BadInputError if their numbers differ."""
    stages = FixedStages(model)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # what is captured must have run before, and not in the default stream
        for _ in range(setting.WARM_UP):
            wanted = stages.run()
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        found = stages.run()
    captured.replay()
    if not torch.equal(found, wanted):
        raise BadInputError("The captured graph gives other numbers than the stages one by one.")
    name = "stages of fixed shape, all layers"
    jobs = {"one by one": stages.run, "graph": captured.replay}
    return [figure for way, job in jobs.items() for figure in times(f"{name}: {way}", clock, job, rounds)]


if __name__ == "__main__":
    report.main("cuda", __doc__ or "", measure, full=Size(), quick=QUICK)
