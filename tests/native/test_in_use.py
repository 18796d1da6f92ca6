"""The core where users meet it: the commands, a session's engine, the line that says what runs where."""

from __future__ import annotations

import argparse
import dataclasses
from functools import partial

import pytest
import torch

from miniinfer.cli import loading
from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.backend import TORCH
from miniinfer.engine.engine import Engine
from miniinfer.errors import BadInputError, MiniInferError
from miniinfer.figures.transport import summary
from miniinfer.measure.workload import own_engine
from miniinfer.native.backend import NativeBackend
from miniinfer.native.choose import NATIVE, choose_backend
from miniinfer.native.library import MOST_ROWS, NativeError
from miniinfer.trace.recorder import Recorder
from tests.engine.tiny import tiny_model
from tests.ui.conftest import host, new_session  # noqa: F401  fixtures

GREEDY = SamplingParams(temperature=0, max_new_tokens=4)


@pytest.fixture
def switched_on(monkeypatch, backend: NativeBackend) -> NativeBackend:
    """As in a process whose core is built."""
    monkeypatch.delenv("MINIINFER_NATIVE", raising=False)
    monkeypatch.setattr(NATIVE, "_backend", backend)
    monkeypatch.setattr(NATIVE._build, "library", backend.library)
    return backend


def test_an_engine_takes_what_its_model_chooses_at_that_moment(switched_on, monkeypatch) -> None:
    model = dataclasses.replace(tiny_model())
    assert Engine(model).backend is TORCH, "a model that does not choose"
    object.__setattr__(model, "choose_backend", partial(choose_backend, "auto"))
    engine = Engine(model)
    assert (engine.backend, engine.weights is model.weights) == (switched_on, False)
    assert Engine(model, backend=TORCH).weights is model.weights
    assert own_engine(model).backend is switched_on, "what is measured is what runs"
    monkeypatch.setenv("MINIINFER_NATIVE", "0")
    assert Engine(model).backend is TORCH
    assert engine.backend is switched_on, "an engine keeps what it has"


def test_torch_has_one_thread_while_the_core_decodes_and_all_of_them_for_a_prompt(switched_on) -> None:
    """Its second thread would wait for work on the processor on which the core's helper does."""
    before, seen = torch.get_num_threads(), []
    torch.set_num_threads(3)
    try:
        engine = Engine(tiny_model(), backend=switched_on)
        engine.add_request(range(MOST_ROWS + 1), GREEDY)
        for _ in range(2):
            engine.step(lambda _stage, _state: seen.append(torch.get_num_threads()))
        with pytest.raises(MiniInferError, match="Nothing"):
            engine.step(lambda *_: raise_(BadInputError("Nothing of this step stays.")))
        after = torch.get_num_threads()
        by_torch = Engine(tiny_model(), backend=TORCH)
        by_torch.add_request([1, 2, 3], GREEDY)
        by_torch.step()
        by_torch.step(lambda _stage, _state: seen.append(-torch.get_num_threads()))
    finally:
        torch.set_num_threads(before)
    assert (list(dict.fromkeys(seen)), after) == ([3, 1, -3], 3)


def raise_(error: Exception) -> None:
    raise error


def test_a_record_counts_the_bytes_that_are_read(switched_on) -> None:
    engine = Engine(tiny_model(), backend=switched_on)
    engine.add_request([1, 2, 3], GREEDY)
    recorder = Recorder(engine)
    engine.step(recorder)
    recorder.start()
    record = recorder.record(2, engine.step(recorder))
    assert record.weight_bytes_read == engine.weights.nbytes
    assert set(record.stage_ms) >= {"attn_norm", "qkv_proj", "attn_scores", "mlp_hidden", "unembed"}


@pytest.mark.parametrize(("asked", "name"), [("torch", "torch"), ("auto", "native"), ("native", "native")])
def test_the_commands_take_a_backend(asked: str, name: str, switched_on, model, monkeypatch) -> None:
    monkeypatch.setattr("miniinfer.models.loader.load_model", lambda *args, **options: model)
    found = loading.load(argparse.Namespace(model=None, device="cpu", dtype="float32", backend=asked))
    assert Engine(found).backend.name == name


def test_a_session_chooses_for_its_next_run(switched_on, new_session, monkeypatch) -> None:  # noqa: F811
    session = new_session()
    session.new_run("Hello", GREEDY, chat=False, one_pass=True)
    first = session.timeline.current
    assert (first.info.backend, first.engine.backend) == ("torch", TORCH)
    session.backend = "native"
    session.new_run("Hello", GREEDY, chat=False, one_pass=True)
    second = session.timeline.current
    assert (second.info.backend, second.engine.backend) == ("native", switched_on)
    assert summary(second.info).endswith(" · CPU · float32 · native")
    assert summary(first.info).endswith(" · CPU · float32")
    session.step_to(4, 60)
    for run in (first, second):
        while run.step():
            pass
    assert [t.token_id for t in first.tokens] == [t.token_id for t in second.tokens]

    monkeypatch.setenv("MINIINFER_NATIVE", "0")
    with pytest.raises(NativeError, match="turned off by MINIINFER_NATIVE"):
        session.new_run("Hello", GREEDY, chat=False, one_pass=True)
    assert session.timeline.current is second, "what cannot be had changes nothing"
    session.backend = "auto"
    session.new_run("Hello", GREEDY, chat=False, one_pass=True)
    assert session.timeline.current.info.backend == "torch"


def test_reserved_is_the_storage_at_every_step_of_the_core_with_branches(switched_on) -> None:
    engine = Engine(tiny_model(), EngineConfig(block_size=4, pool_chunk_blocks=2), backend=switched_on)
    seqs = [engine.add_request([1, 2, 3, 4, 5, 6], dataclasses.replace(GREEDY, max_new_tokens=40))]
    sizes = set()
    for number in range(30):
        if number in (3, 9, 20):
            seqs.append(engine.fork(seqs[0], seqs[0].num_tokens - 2))
        engine.step(only=seqs[number % len(seqs)])
        sizes.add(engine.reserved_bytes())
        assert engine.reserved_bytes() == engine.kv_cache.data.untyped_storage().nbytes()
        assert engine.reserved_bytes() == engine.pool.num_blocks * engine.kv_cache.block_bytes
        assert engine.used_bytes() <= engine.allocated_bytes() <= engine.reserved_bytes()
    assert len(sizes) > 2, "the pool has grown under the core"
    assert engine.block_copies
