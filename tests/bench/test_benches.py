"""Every bench at its smallest setting: the figures are there and make sense. How large they are is not tested."""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
import types
from collections.abc import Sequence

import pytest
import torch

from bench import batching, cuda, decode, engine, payload, peers, prefill, recording, report, sampling, setting
from bench.passage import passage
from bench.report import Figure
from miniinfer.engine.backend import TORCH
from miniinfer.engine.graph.capture import keep_plain
from miniinfer.errors import BadInputError
from miniinfer.models.loader import LoadedModel, load_model


@pytest.fixture(scope="module")
def endless(model: LoadedModel) -> LoadedModel:
    return setting.endless(model)


def sane(figures: Sequence[Figure]) -> dict[str, Figure]:
    """By name; names are unique, values positive, and the table shows them all."""
    found = {figure.name: figure for figure in figures}
    assert len(found) == len(figures)
    for figure in figures:
        assert figure.value > 0, figure
        assert figure.p90 is None or figure.p90 >= figure.value, figure
        assert figure.met is None or figure.most is not None
    assert len(report.table(figures).splitlines()) == len(figures) + 2
    return found


def test_recording(endless: LoadedModel) -> None:
    size = recording.Size(contexts=(12,), rounds=2, trace_tokens=10, trace_prompt=6)
    found = sane(recording.measure(size, endless))
    assert found["decode step, 12 tokens, recorded : without"].most == recording.MOST_RATIO
    config = endless.config
    per_token = 4 * config.num_layers * config.num_heads * config.head_dim
    assert found["trace of 10 tokens: q"].value == 10 * per_token
    kinds = sum(figure.value for name, figure in found.items() if name.startswith("trace of 10 tokens: "))
    assert found["trace of 10 tokens"].value >= kinds, "memory taken is at least the arrays kept"


def test_payload(endless: LoadedModel) -> None:
    contexts = (8, 24, 40)
    found = sane(payload.measure(payload.Size(contexts, prompt=4, rounds=2), endless))
    heads = endless.config.num_layers * endless.config.num_heads
    step = [found[f"decode step, {t} tokens"].value for t in contexts]
    text = 1500  # bytes of JSON by which two steps may differ: other tokens, other candidates
    for earlier, later in itertools.pairwise(step):
        assert abs(later - earlier - 16 * heads) < text, "a step sends its own rows, and not a map"
    assert found["prefill of 40 tokens"].value > step[-1]
    parts = ("next token", "rows", "JSON and the rest")
    assert all(f"decode step, 40 tokens: {part}" in found for part in parts)


def test_batching(endless: LoadedModel) -> None:
    """Both sides compute the same: greedy choices of the same weights, also for rows that are padded on the left."""
    twin = batching.transformers_twin(endless)
    found = sane(batching.beside({"float32": endless}, {"theirs": twin}, [9] * 8, "8 together", rounds=2))
    assert found["8 together: float32 : theirs"].most == 0.5
    prompts = [passage(endless.tokenizer, length) for length in (4, 9, 6)]
    ours, theirs = batching.OurDecoding(endless, prompts), batching.TwinDecoding(twin, prompts)
    for _ in range(3):
        ours.step()
        theirs.step()
    assert [seq.output_ids for seq in ours.seqs] == torch.stack(theirs.output, dim=1).tolist()


def test_sampling(endless: LoadedModel) -> None:
    found = sane(sampling.measure(sampling.Size(rounds=2, context=8), endless))
    assert all(found[f"all stages, {name}"].most == sampling.MOST_MS for name in sampling.SETTINGS)
    assert found["all stages, with the unembed product"].most == sampling.MOST_MS


def test_engine(endless: LoadedModel) -> None:
    size = engine.Size(decode=(12,), prefill=(4,), together=(12,), rounds=2, prefill_rounds=1)
    found = sane(engine.measure(size, endless))
    assert found["decode step, 12 tokens: step : that read"].unit == "x"
    stages = {name.rpartition(": ")[2] for name in found if name.startswith("decode step, 12 tokens: ")}
    assert {"mlp_hidden", "mlp_out", "qkv_proj", "attn_out", "unembed"} <= stages
    assert "prefill of 4 tokens" in found


def test_prefill_is_what_decode_measures_of_a_prompt() -> None:
    assert (prefill.FULL.contexts, prefill.FULL.prefill) == ((), decode.Size().prefill)


def test_a_bench_of_prompts_alone(endless: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode.peers, "installed", lambda model, context: {})
    size = decode.Size(contexts=(), prefill=5, prefill_rounds=1)
    found = {figure.name: figure for figure in decode.measure(size, {"float32": endless})}
    assert found["prefill of 5: float32"].value > 0
    assert not [name for name in found if name.startswith("decode")]


def test_decode(endless: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two precisions and a peer that only counts: each is timed, and held against its read and against the peer."""
    model = load_model(endless.source, device="cpu", dtype="packed")
    packed = setting.endless(model)
    asked: list[tuple[str, int]] = []

    class Counting:
        def prompt(self, length: int) -> None:
            asked.append(("prompt", length))

        def step(self) -> None:
            asked.append(("step", 1))

    monkeypatch.setattr(decode.peers, "installed", lambda model, context: {"llama.cpp": Counting})
    size = decode.Size(contexts=(12,), prefill=5, rounds=2, prefill_rounds=1)
    found = sane(decode.measure(size, {"float32": endless, "packed": packed}))
    assert found["packed: weights read a step"].value == packed.weights.nbytes
    assert found["decode, T = 12: packed : that read"].unit == "x"
    assert found["decode, T = 12: packed : llama.cpp"].most == 0.8
    assert found["decode, T = 12: float32 : llama.cpp"].most is None
    assert {"prefill of 5: float32", "prefill of 5: packed : llama.cpp"} <= set(found)
    assert asked.count(("step", 1)) == 2 + setting.WARM_UP
    assert [length for kind, length in asked if kind == "prompt"] == [setting.middle(12, 2), 5, 5]


def test_transformers_as_a_peer_decodes_the_same_tokens(endless: LoadedModel) -> None:
    peer = peers.Transformers(endless, batching.transformers_twin(endless), attentions=True)
    peer.prompt(9)
    ours = batching.OurDecoding(endless, [passage(endless.tokenizer, 9)])
    assert ours.seqs[0].output_ids == [peer.token_id]
    for _ in range(3):
        ours.step()
        peer.step()
        assert ours.seqs[0].output_ids[-1] == peer.token_id
    assert peer.num_attentions == endless.config.num_layers


def test_cuda_says_so_where_there_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(BadInputError, match="no CUDA device"):
        cuda.measure(cuda.QUICK)


def test_what_cuda_measures_runs_on_any_device(endless: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole script, with stages that run again in place of graphs (tests/engine/graph captures them): a model does
    not differ from itself but by padding."""
    monkeypatch.setattr(setting, "WARM_UP", 1)
    size = cuda.Size(parity=4, fields=2, contexts=(8,), prefill=9, rounds=2)
    models = dict.fromkeys(("cpu", "float32", "bfloat16"), endless)
    found = sane(setting.in_engine_thread(lambda: cuda.figures_of(size, models, lambda device: keep_plain)))
    assert found["float32 on the device, KL from the CPU's float32"].value == 1e-12
    assert found["float32 on the device, positions with the same best token"].value == 1
    furthest = found["float32 by graph, field furthest from torch on the CPU"]
    assert furthest.met
    assert "layer" in furthest.note
    assert found["float32: steps in kept memory"].value == 1, "the cache comes into being in the first step"
    for way in ("torch", "torch, recorded", "graph", "graph, recorded"):
        assert f"decode, T = 8, {way}" in found
    assert "all kept stages of one step: one graph" in found


def test_a_field_that_differs_is_found_by_name(endless: LoadedModel) -> None:
    wanted = cuda.stage_tensors(endless, TORCH, 2)
    assert cuda.furthest_field(wanted, wanted) == (0.0, "")
    place = next(i for i, tensor in enumerate(wanted) if (tensor.name, tensor.layer) == ("z", 7))
    changed = list(wanted)
    changed[place] = dataclasses.replace(wanted[place], values=wanted[place].values * 1.5)
    off, where = cuda.furthest_field(changed, wanted)
    assert off == pytest.approx(0.5)
    assert where == "attn_mix, layer 7: z"


def test_llama_cpp_is_driven_token_by_token_where_it_is_installed(
    endless: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Llama:
        def __init__(self, path: str, **settings: object) -> None:
            assert (path, settings["n_ctx"]) == (str(endless.source), 32)
            self.tokens: list[int] = []

        def reset(self) -> None:
            self.tokens = []

        def eval(self, tokens: list[int]) -> None:
            self.tokens += tokens

        def sample(self, temp: float) -> int:
            return 100 + len(self.tokens)

    monkeypatch.setitem(sys.modules, "llama_cpp", types.SimpleNamespace(Llama=Llama))
    peer = peers.LlamaCpp(endless, 32)
    peer.prompt(3)
    peer.step()
    peer.prompt(3)
    peer.step()
    peer.step()
    assert peer.llama.tokens == [*passage(endless.tokenizer, 3), 103, 104]


def test_command_prints_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def measure(size: int) -> list[Figure]:
        return [Figure("kept", size, "ms", most=2, p90=1.5), Figure("missed", 3, "x", most=2), Figure("free", 1, "s")]

    monkeypatch.setattr(sys, "argv", ["bench", "--quick", "--json"])
    report.main("example", "An example.", measure, full=5, quick=1)
    printed = json.loads(capsys.readouterr().out)
    assert (printed["bench"], printed["quick"]) == ("example", True)
    assert [figure["met"] for figure in printed["figures"]] == [True, False, None]
    assert printed["figures"][0]["value"] == 1
