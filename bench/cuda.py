"""On a CUDA device: does the program say there what it says on the CPU, and how long does a step take, by events.

Parity: a passage in float32 and in bfloat16 on the device against float32 on the CPU, by torch; then every field of
every stage of one-row steps, by the backend graph against torch on the CPU (float32) and on the device (bfloat16).
Times, in bfloat16: decode steps with nobody watching and recorded as the app makes them, by torch and by graph, beside
reading the weights on the device; prefill. Graph: what the first step costs (every stage is captured), what it keeps in
memory, and all captured stages one after another against one graph of all of them, which no stage could be watched in.
Ends with a sentence where there is no such device. A few minutes at the most.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bench import report, setting
from bench.passage import passage
from bench.report import Figure
from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.backend import TORCH, Backend
from miniinfer.engine.clock import DeviceClock, allocator_bytes
from miniinfer.engine.engine import Engine
from miniinfer.engine.graph.backend import GraphBackend
from miniinfer.engine.graph.capture import Fields, Keep, keep_on
from miniinfer.engine.lookup import logits_of
from miniinfer.errors import BadInputError
from miniinfer.measure.timing import timing_of
from miniinfer.models.loader import LoadedModel, load_model
from miniinfer.trace.capture import StageCapture, StageTensor

MOST_KL = {"float32": 1e-4, "bfloat16": 0.02}  # mean over the positions, in nats
MOST_OFF = {"float32": 1e-3, "bfloat16": 0.05}  # of a field: the largest difference, relative to its largest number


@dataclass(frozen=True)
class Size:
    """parity, fields: positions that are compared, by their logits and field by field."""

    parity: int = 256
    fields: int = 24
    contexts: tuple[int, ...] = (64, 256, 1024)
    prefill: int = 512
    rounds: int = 50


QUICK = Size(parity=32, fields=8, contexts=(64,), prefill=64, rounds=8)


def measure(size: Size) -> list[Figure]:
    """All figures. Raises BadInputError if this machine has no CUDA device."""
    if not torch.cuda.is_available():
        raise BadInputError("This machine has no CUDA device that torch can use, so there is nothing to measure here.")
    models = {
        name: setting.endless(load_model(device=device, dtype=dtype))
        for name, device, dtype in (
            ("cpu", "cpu", "float32"), ("float32", "cuda", "float32"), ("bfloat16", "cuda", "bfloat16"))
    }  # fmt: skip
    return setting.in_engine_thread(lambda: figures_of(size, models, keep_on))


def figures_of(
    size: Size, models: dict[str, LoadedModel], keep_on: Callable[[torch.device], Keep]
) -> list[Figure]:
    """models: cpu, float32 and bfloat16, the last two on the device. keep_on: how stages are kept there."""
    figures = []
    for dtype in ("float32", "bfloat16"):
        kl, same = difference(models["cpu"], models[dtype], size.parity)
        figures.append(Figure(f"{dtype} on the device, KL from the CPU's float32", kl, "nats", MOST_KL[dtype]))
        figures.append(Figure(f"{dtype} on the device, positions with the same best token", same, "share"))
    for dtype, reference in (("float32", "cpu"), ("bfloat16", "bfloat16")):
        backend = GraphBackend(keep_on)
        found = stage_tensors(models[dtype], backend, size.fields)
        off, where = furthest_field(found, stage_tensors(models[reference], TORCH, size.fields))
        name = f"{dtype} by graph, field furthest from torch on the {'CPU' if reference == 'cpu' else 'device'}"
        figures.append(Figure(name, max(off, 1e-12), "share", MOST_OFF[dtype], note=where))
        figures.append(Figure(f"{dtype}: steps in kept memory", backend.steps[""], "steps", note=backend.sentence))
    model = models["bfloat16"]
    clock = DeviceClock(model.weights.device)
    read = weights_reader(model)
    for context in size.contexts:
        for backend in (TORCH, GraphBackend(keep_on)):
            figures += decode_times(model, backend, context, clock, size.rounds)
        figures += times(f"decode, T = {context}: reading the weights", clock, read, size.rounds)
    figures += times(
        f"prefill of {size.prefill}", clock,
        lambda: setting.step_until(setting.live_run(model, size.prefill), size.prefill), max(3, size.rounds // 10),
    )  # fmt: skip
    return figures + captured(model, GraphBackend(keep_on), keep_on, clock, size)


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


def stage_tensors(model: LoadedModel, backend: Backend, length: int) -> list[StageTensor]:
    """All that the stages wrote of a passage that is computed token by token, so that each step is one row."""
    engine = Engine(model, EngineConfig(), backend=backend)
    engine.add_request(passage(model.tokenizer, length), SamplingParams(max_new_tokens=0), prefill_chunk=1)
    found: list[StageTensor] = []
    while True:
        capture = StageCapture()
        if engine.step(capture) is None:
            return found
        found += capture.tensors


def furthest_field(found: Sequence[StageTensor], wanted: Sequence[StageTensor]) -> tuple[float, str]:
    """The largest difference of any field, relative to its largest number, and where it is."""
    worst, where = 0.0, ""
    for a, b in zip(found, wanted, strict=True):
        x, y = torch.from_numpy(a.values.copy()), torch.from_numpy(b.values.copy())
        if a.name in ("slot_mapping", "new_blocks", "block_tables") or not y.numel():
            continue
        if not torch.equal(x.isfinite(), y.isfinite()):
            return float("inf"), f"{a.stage}, layer {a.layer}: {a.name} is not finite in other places"
        x, y = (t.nan_to_num(0, 0, 0) for t in (x, y))
        off = float((x - y).abs().max()) / max(float(y.abs().max()), 1e-9)
        if off > worst:
            worst, where = off, f"{a.stage}, layer {a.layer}: {a.name}"
    return worst, where


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


def decode_times(
    model: LoadedModel, backend: Backend, context: int, clock: DeviceClock, rounds: int
) -> list[Figure]:
    """A step about `context` positions, with nobody watching, and recorded."""
    start = setting.middle(context, rounds)
    chosen = dataclasses.replace(model, choose_backend=lambda _weights: backend)
    run = setting.step_until(setting.live_run(chosen, start), start)
    recorded = times(f"decode, T = {context}, {backend.name}, recorded", clock, run.step, rounds)
    alone = setting.Decoding(chosen, [start])
    return times(f"decode, T = {context}, {backend.name}", clock, alone.step, rounds) + recorded


def captured(
    model: LoadedModel, backend: GraphBackend, keep_on: Callable[[torch.device], Keep], clock: DeviceClock, size: Size
) -> list[Figure]:
    """What capturing a step takes and keeps, and what it costs that every stage is a graph of its own."""
    device = model.weights.device
    decoding = setting.Decoding(
        dataclasses.replace(model, choose_backend=lambda _weights: backend), [size.contexts[0]])  # fmt: skip
    before = allocator_bytes(device)
    figures = [Figure("first decode step, in which every stage is captured", clock.time(decoding.step), "ms")]
    if before is not None:
        kept = (allocator_bytes(device) or 0) - before
        figures.append(Figure("memory of the kept stages of one shape", max(kept, 1), "bytes"))
    [memory] = backend.memories(decoding.engine)

    def one_job() -> Fields:
        """Each stage reads what the stage before it left of this same step, so all give what they gave."""
        fields: Fields = {}
        for job in memory.jobs:
            fields = job()
        return fields

    whole = keep_on(device)(one_job)
    jobs = {"a graph a stage": memory.run_all, "one graph": whole.run}
    for way, job in jobs.items():
        figures += times(f"all kept stages of one step: {way}", clock, job, size.rounds)
    return figures


if __name__ == "__main__":
    report.main("cuda", __doc__ or "", measure, full=Size(), quick=QUICK)
