"""What the benches run on: the default model in float32 on the CPU, sequences of a given length, runs as the app's."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from bench.passage import SENTENCE, passage
from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.stage import Observer
from miniinfer.engine.worker import EngineWorker
from miniinfer.models.loader import LoadedModel, load_model
from miniinfer.trace.budget import TraceBudget
from miniinfer.trace.live_run import LiveRun
from miniinfer.ui.sessions.engine_config import ONE_PASS_TOKENS
from miniinfer.ui.sessions.session import run_info
from miniinfer.ui.tokens import describe_token

WARM_UP = 3  # rounds thrown away
PARAMS = SamplingParams(max_new_tokens=4096)  # otherwise what the app starts with, top-p included
APP = EngineConfig(max_num_batched_tokens=ONE_PASS_TOKENS)  # as a session of the app configures its engine

T = TypeVar("T")


@cache
def load(dtype: str = "float32") -> LoadedModel:
    """The model on the CPU, but for its stop ids: a run must not end before it has been measured."""
    # In a thread of its own, as in the app: OpenMP's helpers belong to the thread that first needs them, and how they
    # wait depends on how many there are.
    with ThreadPoolExecutor(1) as loader:
        model = endless(loader.submit(load_model, device="cpu", dtype=dtype).result())
    gc.collect()
    gc.freeze()  # as the app does after loading
    return model


def endless(model: LoadedModel) -> LoadedModel:
    """The same model and weights, with no token that ends a text."""
    return dataclasses.replace(model, stop_ids=frozenset())


def in_engine_thread(job: Callable[[], T]) -> T:
    """Run it as the app runs all model work: in one long-lived thread, under torch.inference_mode."""
    worker = EngineWorker()
    try:
        return worker.call(job)
    finally:
        worker.close()


def middle(context: int, rounds: int) -> int:
    """Positions to begin with, so that the median step of warm-up and rounds, one position each, has `context`."""
    return max(1, context - WARM_UP - rounds // 2 - 1)


class Decoding:
    """Sequences that stand in the middle of a text. `step()` makes one decode step of all of them together."""

    def __init__(self, model: LoadedModel, lengths: Sequence[int], observer: Observer | None = None) -> None:
        self.engine = Engine(model, EngineConfig())
        self.observer = observer
        self.seqs = [self.engine.add_request(passage(model.tokenizer, length), PARAMS) for length in lengths]
        while any(seq.num_output_tokens == 0 for seq in self.seqs):
            self.engine.step()

    def step(self) -> None:
        state = self.engine.step(self.observer)
        assert state is not None  # nobody ends: see `endless`
        assert len(state.sample_rows) == len(self.seqs)


def live_run(model: LoadedModel, prompt_length: int) -> LiveRun:
    """A run as a session of the app makes it, before its first step."""
    ids = passage(model.tokenizer, prompt_length)
    engine = Engine(model, APP)
    seq = engine.add_request(ids, PARAMS)
    info = run_info(engine, model, seq.seq_id, SENTENCE, len(ids), PARAMS, chat=False, one_pass=True)
    return LiveRun(engine, seq, info, lambda token_id: describe_token(model, token_id), TraceBudget())


def step_until(run: LiveRun, positions: int) -> LiveRun:
    """Step it until the cache holds that many positions."""
    while run.seq.num_computed_tokens < positions:
        run.step()
    return run
