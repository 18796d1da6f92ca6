"""Other software that decodes the same model, for comparison, where it happens to be installed. Never needed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, Protocol

import torch

from bench.passage import passage
from miniinfer.models.loader import LoadedModel


class Peer(Protocol):
    """One way to run the model: `prompt` reads a prompt of so many tokens anew, `step` decodes one more token."""

    def prompt(self, length: int) -> None: ...

    def step(self) -> None: ...


class Transformers:
    """transformers' own Llama class with our weights. attentions: it gives back every attention row, as ours does."""

    def __init__(self, model: LoadedModel, twin: Any, *, attentions: bool) -> None:
        self._tokenizer, self._twin, self._attentions = model.tokenizer, twin, attentions

    def prompt(self, length: int) -> None:
        from transformers import DynamicCache

        self._cache = DynamicCache()
        self._ids = torch.tensor([passage(self._tokenizer, length)])
        self.step()

    @torch.inference_mode()
    def step(self) -> None:
        self._twin.set_attn_implementation("eager" if self._attentions else "sdpa")
        out = self._twin(
            self._ids, cache=self._cache, use_cache=True, logits_to_keep=1,
            output_attentions=self._attentions,
        )  # fmt: skip
        self._ids = out.logits[:, -1].argmax(-1, keepdim=True)
        self.num_attentions = len(out.attentions or ())

    @property
    def token_id(self) -> int:
        """The newest one."""
        return int(self._ids[0, -1])


class LlamaCpp:
    """llama.cpp through llama-cpp-python, on the model's own GGUF file. It shows nothing of what it computes."""

    def __init__(self, model: LoadedModel, context: int) -> None:
        import llama_cpp

        threads = torch.get_num_threads()
        self._tokenizer = model.tokenizer
        self.llama = llama_cpp.Llama(
            str(model.source), n_ctx=context, n_threads=threads, n_threads_batch=threads, verbose=False
        )

    def prompt(self, length: int) -> None:
        self.llama.reset()
        self.llama.eval(passage(self._tokenizer, length))

    def step(self) -> None:
        self.llama.eval([self.llama.sample(temp=0.0)])


def installed(model: LoadedModel, context: int) -> dict[str, Callable[[], Peer]]:
    """Each peer that can be imported here, made when asked for; those of the same twin share its weights."""
    peers: dict[str, Callable[[], Peer]] = {}
    if importlib.util.find_spec("transformers"):
        from bench.batching import transformers_twin

        wide = transformers_twin(model)
        narrow = transformers_twin(model).to(torch.bfloat16)
        peers |= {
            "transformers float32, attentions": lambda: Transformers(model, wide, attentions=True),
            "transformers float32": lambda: Transformers(model, wide, attentions=False),
            "transformers bfloat16": lambda: Transformers(model, narrow, attentions=False),
        }
    if importlib.util.find_spec("llama_cpp"):
        peers["llama.cpp"] = lambda: LlamaCpp(model, context)
    return peers
